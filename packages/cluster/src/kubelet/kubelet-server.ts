import { chmod, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { pipeline, Readable } from "node:stream";
import { isStatusError, type Status, statusError } from "@keelson/api-machinery";
import type { MetricsObjects } from "./metrics/resource-metrics.ts";
import type { PodHandler } from "./pod-handlers.ts";
import type { PodCall } from "./logs/pod-log.ts";

/** Options of {@link startKubeletServer}. */
export interface KubeletServerOptions {
  /** Path of the Unix socket. Only this user may connect to it. An existing file is replaced. */
  readonly socketPath: string;
  /** Handlers by subresource, as `podHandlers` returns them: `/pods/log`, `/pods/exec`. */
  readonly handlers: Readonly<Record<string, PodHandler>>;
  /** The resource usage served at `/metrics/resource`. Default: none is served. */
  readonly metrics?: () => MetricsObjects;
  /** Receives failures that no client sees. */
  readonly onError: (error: unknown) => void;
}

/** A running server of the kubelet API. */
export interface KubeletServer {
  stop(): Promise<void>;
}

/** Header in which the API server says whether the user may run commands in bare processes: `allowed` or `denied`. */
export const processAccessHeader = "x-keelson-process-access";

/** Whether a request to the kubelet server may run commands in bare processes. For `PodHandlersOptions.mayUseProcess`. */
export function hasProcessAccess({ request }: PodCall): boolean {
  return request.headers?.[processAccessHeader] === "allowed";
}

/** Path of the node's resource usage, as JSON of {@link MetricsObjects}. */
export const resourceMetricsPath = "/metrics/resource";

const podPath = /^\/api\/v1\/namespaces\/([^/?]+)\/pods\/([^/?]+)\/([a-z]+)(?:\?|$)/;

/**
 * Serves `/healthz`, and logs, exec, attach and port-forward of this node's Pods, over HTTP on a Unix socket. The API server, in another process,
 * forwards authorized requests to it under their original path.
 */
export async function startKubeletServer(options: KubeletServerOptions): Promise<KubeletServer> {
  const { socketPath, handlers, metrics, onError } = options;
  const server = createServer((request, response) => {
    if (request.url === "/healthz") response.writeHead(200, { "content-type": "text/plain; charset=utf-8" }).end("ok");
    else if (metrics !== undefined && request.url === resourceMetricsPath) {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(metrics()));
    } else void serve(request, response, handlers).catch(onError);
  });
  const upgraded = new Set<Duplex>();
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    upgraded.add(socket.once("close", () => upgraded.delete(socket)));
    void upgrade(request, socket, head, handlers).catch((error: unknown) => {
      socket.destroy();
      onError(error);
    });
  });
  await rm(socketPath, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(socketPath, resolve);
  });
  await chmod(socketPath, 0o600);
  return {
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
        for (const socket of upgraded) socket.destroy();
      }),
  };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  handlers: KubeletServerOptions["handlers"],
): Promise<void> {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  const answer = await handle(request, handlers, closed.signal);
  if (answer.kind === "raw") {
    response.writeHead(answer.status, answer.headers);
    pipeline(Readable.from(answer.body), response, () => {});
  } else if (answer.kind === "status") {
    response.writeHead(answer.status.code ?? 500, { "content-type": "application/json" }).end(JSON.stringify(answer.status));
  } else {
    response.writeHead(400).end();
  }
}

async function upgrade(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  handlers: KubeletServerOptions["handlers"],
): Promise<void> {
  socket.on("error", () => {});
  const answer = await handle(request, handlers, undefined);
  if (answer.kind === "upgrade") {
    answer.connect({ socket, head, url: request.url ?? "", headers: request.headers });
    return;
  }
  const body = answer.kind === "status" ? JSON.stringify(answer.status) : "";
  const code = answer.kind === "status" ? (answer.status.code ?? 500) : 400;
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ""}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

async function handle(
  request: IncomingMessage,
  handlers: KubeletServerOptions["handlers"],
  signal: AbortSignal | undefined,
): ReturnType<PodHandler> {
  try {
    const [, namespace = "", name = "", subresource = ""] = podPath.exec(request.url ?? "") ?? [];
    const handler = handlers[`/pods/${subresource}`];
    if (handler === undefined) throw statusError("NotFound", `the kubelet does not serve ${request.url}`);
    const headers: Record<string, string> = {};
    for (const [key, value] of Object.entries(request.headers)) {
      if (value !== undefined) headers[key] = Array.isArray(value) ? value.join(", ") : value;
    }
    const query: Record<string, string> = {};
    for (const [key, value] of new URL(request.url ?? "", "http://kubelet").searchParams) query[key] ??= value;
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

function statusOf(error: unknown): Status {
  if (isStatusError(error)) return error.status;
  return statusError("InternalError", error instanceof Error ? error.message : String(error)).status;
}
