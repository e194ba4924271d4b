import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { type Duplex, pipeline, Readable } from "node:stream";
import { isStatusError, type Status, statusError } from "@keelson/api-machinery";
import type { PodCall } from "./logs/pod-log.ts";
import type { PodHandler, PodHandlers } from "./pod-handlers.ts";

/** An HTTP request that asks for another protocol. */
export interface UpgradingRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** Bytes received after the request. */
  readonly head: Buffer;
  /** The path of the subresource in the Kubernetes API, with the query. */
  readonly url: string;
}

const podPath = /^\/api\/v1\/namespaces\/([^/?]+)\/pods\/([^/?]+)\/([a-z]+)(?:\?|$)/;

/** Serves a request for a subresource of a Pod. `url` is its path in the Kubernetes API, with the query. */
export async function servePodRequest(
  request: IncomingMessage,
  response: ServerResponse,
  url: string,
  handlers: PodHandlers,
): Promise<void> {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  const answer = await handle(request, url, handlers, closed.signal);
  if (answer.kind === "raw") {
    response.writeHead(answer.status, answer.headers);
    pipeline(Readable.from(answer.body), response, () => {});
  } else if (answer.kind === "status") {
    response.writeHead(answer.status.code ?? 500, { "content-type": "application/json" }).end(JSON.stringify(answer.status));
  } else {
    response.writeHead(400).end();
  }
}

/** Switches the protocol of a request for a subresource of a Pod, or rejects it. */
export async function upgradePodRequest(
  { request, socket, head, url }: UpgradingRequest,
  handlers: PodHandlers,
): Promise<void> {
  socket.on("error", () => {});
  const answer = await handle(request, url, handlers, undefined);
  if (answer.kind === "upgrade") {
    answer.connect({ socket, head, url, headers: request.headers });
    return;
  }
  rejectUpgrade(
    socket,
    answer.kind === "status" ? answer.status : statusError("BadRequest", "the protocol is not switched").status,
  );
}

/** Ends the connection of a request for another protocol with a Status. */
export function rejectUpgrade(socket: Duplex, status: Status): void {
  const body = JSON.stringify(status);
  const code = status.code ?? 500;
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ""}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
    // A client that does not close the connection must not keep it.
    () => socket.destroy(),
  );
}

async function handle(
  request: IncomingMessage,
  url: string,
  handlers: PodHandlers,
  signal: AbortSignal | undefined,
): ReturnType<PodHandler> {
  try {
    const [, namespace = "", name = "", subresource = ""] = podPath.exec(url) ?? [];
    const handler = handlers[`/pods/${subresource}`];
    if (handler === undefined) throw statusError("NotFound", `the kubelet does not serve ${request.url}`);
    const headers: Record<string, string> = {};
    for (const [key, value] of Object.entries(request.headers)) {
      if (value !== undefined) headers[key] = Array.isArray(value) ? value.join(", ") : value;
    }
    const query: Record<string, string> = {};
    for (const [key, value] of new URL(url, "http://kubelet").searchParams) query[key] ??= value;
    const call: PodCall = {
      info: { namespace: decodeURIComponent(namespace), name: decodeURIComponent(name) },
      query,
      request: { method: request.method ?? "GET", headers, signal },
    };
    return await handler(call);
  } catch (error) {
    return { kind: "status", status: statusOf(error) };
  }
}

/** The Status of an error. */
export function statusOf(error: unknown): Status {
  if (isStatusError(error)) return error.status;
  return statusError("InternalError", error instanceof Error ? error.message : String(error)).status;
}
