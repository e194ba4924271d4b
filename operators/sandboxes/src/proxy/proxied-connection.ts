import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { ProxyError } from "./proxy-error.ts";

/** The answer to a request, and the connection if it has switched protocols. */
export interface Answer {
  readonly answer: IncomingMessage;
  readonly target?: Duplex;
  readonly first?: Buffer;
}

/** Maximum number of informational responses. Nothing takes them, so an endless series would be read without a pause. */
const maxInformational = 16;

/** Rejects if the connection ends without a response, or has more informational ones than {@link maxInformational}. */
export function answerOf(sent: ClientRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let informational = 0;
    sent.on("information", () => {
      informational += 1;
      if (informational <= maxInformational) return;
      reject(new ProxyError(502, `the sandbox sent more than ${maxInformational} informational responses`));
      sent.destroy();
    });
    sent.once("upgrade", (answer, target, first) => resolve({ answer, target, first }));
    sent.once("response", (answer) => resolve({ answer }));
    sent.once("error", reject);
    sent.once("close", () => reject(new Error("the connection ended without a response")));
  });
}

/**
 * Aborts when a client's stream or its connection closes. A response that waits for earlier ones of its connection does not close with it,
 * and a client may have left before.
 */
export function closeOf(client: Duplex | ServerResponse, socket: Duplex): AbortSignal {
  const control = new AbortController();
  // Each request of a pipeline adds one.
  socket.setMaxListeners(0);
  const close = (): void => {
    client.off("close", close);
    socket.off("close", close);
    control.abort();
  };
  if (client.destroyed || socket.destroyed) control.abort();
  client.once("close", close);
  socket.once("close", close);
  return control.signal;
}

/** **Errors**: `ProxyError` unless a request opens a WebSocket (RFC 6455 section 4.1) and has no body. */
export function requireWebSocket({ method, headers }: IncomingMessage): void {
  if (headers.upgrade?.toLowerCase() !== "websocket")
    throw new ProxyError(400, "upgrade: must be websocket; the proxy speaks HTTP/1.1 only");
  const hasBody = headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
  if (method !== "GET" || headers["sec-websocket-key"] === undefined || hasBody)
    throw new ProxyError(400, "a WebSocket must be opened with GET, sec-websocket-key and no body");
}
