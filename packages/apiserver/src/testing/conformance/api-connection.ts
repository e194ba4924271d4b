import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";

/** A request as sent. */
export interface WireRequest {
  readonly method: string;
  /** Path and query, percent-encoded. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Whether the request carries credentials of its own, or none on purpose. The connection's certificate is not presented then. */
  readonly hasOwnCredentials?: boolean;
}

/** A client certificate and its key (PEM). */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

/** A complete response. A JSON body is parsed; an empty one is null. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
}

/** A connection to an API server without a client library. */
export interface ApiConnection {
  send(request: WireRequest): Promise<Answer>;
  /** Resolves when the status line has arrived; the caller reads the body. */
  open(request: WireRequest): Promise<IncomingMessage>;
  close(): void;
}

/**
 * Connects to an API server by HTTPS; its certificate is verified against `authority` (PEM). `certificate` authenticates requests without
 * credentials of their own. Default: none.
 */
export function connectApi(url: string, authority: string, certificate?: ClientCertificate): ApiConnection {
  const plain = new Agent({ ca: authority, keepAlive: true });
  const authenticated = certificate === undefined ? plain : new Agent({ ca: authority, keepAlive: true, ...certificate });

  function open({ method, target, headers, body, hasOwnCredentials }: WireRequest): Promise<IncomingMessage> {
    const agent = hasOwnCredentials === true ? plain : authenticated;
    return new Promise((resolve, reject) => {
      const outgoing = request(new URL(target, url), { method, headers, agent }, resolve);
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  }

  return {
    open,
    async send(wireRequest) {
      const response = await open(wireRequest);
      return readAnswer(response);
    },
    close() {
      plain.destroy();
      authenticated.destroy();
    },
  };
}

/** Reads a complete response. */
export async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString("utf8");
  return { status: response.statusCode ?? 0, headers: response.headers, body: parseBody(response.headers, text) };
}

function parseBody(headers: IncomingMessage["headers"], text: string): unknown {
  if (text === "") return null;
  if (!headers["content-type"]?.includes("json") && !/^[{[]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
