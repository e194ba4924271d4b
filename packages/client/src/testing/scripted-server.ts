import type { ApiRequest, Transport, WatchEvent, WatchStream } from "@keelson/api-machinery/transport";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { statusErrorOf } from "../transport/response-status.ts";
import { TransportError } from "../transport/transport-error.ts";

/** Returns the response to a request: a single response, or a watch whose end the script decides. */
export type Script = (request: ScriptedRequest) => ScriptedResponse | Promise<ScriptedResponse>;

/** A request to a {@link Script}. */
export interface ScriptedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

/** A response of a {@link Script}. */
export type ScriptedResponse =
  | { readonly status: number; readonly body: unknown; readonly headers?: Readonly<Record<string, string>> }
  | { readonly events: AsyncIterable<WatchEvent<unknown>>; readonly ending: "clean" | "broken" };

/** Serves a script over HTTP on a free loopback port. */
export async function serveScript(script: Script): Promise<{ url: string; sockets: Set<Socket>; stop(): Promise<void> }> {
  const server: Server = createServer((incoming, response) => {
    void respond(script, incoming, response).catch(() => response.destroy());
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    sockets,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function respond(script: Script, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const url = new URL(incoming.url ?? "/", "http://localhost");
  const text = Buffer.concat(chunks).toString();
  const result = await script({
    method: incoming.method ?? "",
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: incoming.headers,
    body: text === "" ? undefined : JSON.parse(text),
  });
  if ("status" in result) {
    const isText = typeof result.body === "string";
    response.writeHead(result.status, { "content-type": isText ? "text/plain" : "application/json", ...result.headers });
    response.end(isText ? result.body : JSON.stringify(result.body));
    return;
  }
  response.writeHead(200, { "content-type": "application/json" });
  response.flushHeaders();
  for await (const event of result.events) {
    if (response.destroyed) return;
    response.write(`${JSON.stringify(event)}\n`);
  }
  if (result.ending === "clean") response.end();
  else response.destroy();
}

/** Serves a script in process, without HTTP. */
export function scriptedTransport(script: Script): Transport {
  const closing = new AbortController();
  const send = async (request: ApiRequest): Promise<ScriptedResponse> => {
    if (closing.signal.aborted) throw new TransportError("Closed", "the transport is closed");
    request.signal?.throwIfAborted();
    const { method, path, query = {}, headers = {}, body, signal } = request;
    const defined = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const aborted = new Promise<never>((_, reject) => {
      const end = (): void => reject(signal?.aborted ? signal.reason : new TransportError("Closed", "the transport is closed"));
      signal?.addEventListener("abort", end, { once: true });
      closing.signal.addEventListener("abort", end, { once: true });
    });
    return Promise.race([aborted, script({ method, path, query: Object.fromEntries(defined), headers, body })]);
  };
  return {
    async request(request) {
      const result = await send(request);
      if (!("status" in result)) throw new TypeError("the script returned a watch for a request");
      return { status: result.status, headers: result.headers ?? {}, body: result.body };
    },
    async watch(request): Promise<WatchStream> {
      const result = await send(request);
      if ("status" in result) throw statusErrorOf(result.status, result.body, `watch ${request.path}`);
      const events = result.events[Symbol.asyncIterator]();
      let isClosed = false;
      let wake = (): void => {};
      const closed = new Promise<{ readonly done: true; readonly value: undefined }>((resolve) => {
        wake = () => resolve({ done: true, value: undefined });
      });
      const close = (): void => {
        isClosed = true;
        wake();
      };
      request.signal?.addEventListener("abort", close, { once: true });
      closing.signal.addEventListener("abort", close, { once: true });
      return {
        close,
        async *[Symbol.asyncIterator]() {
          while (!isClosed) {
            const next = await Promise.race([events.next(), closed]);
            if (isClosed) return;
            if (next.done) {
              if (result.ending === "broken") throw new TransportError("ConnectionLost", "connection lost");
              return;
            }
            yield next.value;
          }
        },
      };
    },
    async close() {
      closing.abort();
    },
  };
}

/** A source of events that a test sends one by one. */
export function eventSource(): {
  events: AsyncIterable<WatchEvent<unknown>>;
  send(event: WatchEvent<unknown>): void;
  end(): void;
} {
  const queue: (WatchEvent<unknown> | undefined)[] = [];
  let wake = (): void => {};
  const put = (event: WatchEvent<unknown> | undefined): void => {
    queue.push(event);
    wake();
  };
  return {
    send: put,
    end: () => put(undefined),
    events: {
      async *[Symbol.asyncIterator]() {
        for (;;) {
          while (queue.length === 0) await new Promise<void>((resolve) => (wake = resolve));
          const event = queue.shift();
          if (event === undefined) return;
          yield event;
        }
      },
    },
  };
}
