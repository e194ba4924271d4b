import { chmod, rm } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { MetricsObjects } from "./metrics/resource-metrics.ts";
import type { PodHandlers } from "./pod-handlers.ts";
import { servePodRequest, upgradePodRequest } from "./pod-requests.ts";
import type { PodCall } from "./logs/pod-log.ts";

/** Options of {@link startKubeletServer}. */
export interface KubeletServerOptions {
  /** Path of the Unix socket. Only this user may connect to it. An existing file is replaced. */
  readonly socketPath: string;
  /** Handlers by subresource, as `podHandlers` returns them: `/pods/log`, `/pods/exec`. */
  readonly handlers: PodHandlers;
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

/**
 * Like {@link hasProcessAccess}, for a node of a cluster whose API server may not send the header: such a cluster cannot restrict bare
 * processes, and a sender who leaves the header out gains nothing.
 */
export function isProcessAccessDenied({ request }: PodCall): boolean {
  return request.headers?.[processAccessHeader] === "denied";
}

/** Path of the node's resource usage, as JSON of {@link MetricsObjects}. */
export const resourceMetricsPath = "/metrics/resource";

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
    } else void servePodRequest(request, response, request.url ?? "", handlers).catch(onError);
  });
  const upgraded = new Set<Duplex>();
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    upgraded.add(socket.once("close", () => upgraded.delete(socket)));
    void upgradePodRequest({ request, socket, head, url: request.url ?? "" }, handlers).catch((error: unknown) => {
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
