import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import { resourceMetricsPath } from "../kubelet-server.ts";
import type { PodHandlers } from "../pod-handlers.ts";
import { rejectUpgrade, servePodRequest, statusOf, upgradePodRequest } from "../pod-requests.ts";
import { type CallerReviews, refusal } from "./node-access.ts";
import { parseKubeletPath } from "./kubelet-path.ts";

/** Options of {@link startNodeServer}. */
export interface NodeServerOptions {
  readonly nodeName: string;
  /** Address to listen on. */
  readonly address: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Certificate and key of the server in PEM. */
  readonly tls: { readonly certificate: string; readonly key: string };
  /** The authority of client certificates in PEM. Default: only tokens are accepted. */
  readonly clientAuthority?: string | undefined;
  readonly reviews: CallerReviews;
  readonly handlers: PodHandlers;
  /** The text of `/metrics/resource`. Default: it is not served. */
  readonly resourceMetrics?: () => string;
  readonly clock: Clock;
  /** Receives failures that no client sees. */
  readonly onError: (error: unknown) => void;
}

/** A running server of the kubelet's HTTPS API. */
export interface NodeServer {
  readonly port: number;
  stop(): Promise<void>;
}

/** Time within which a TLS handshake must complete, and the headers of a request must arrive. */
const headersTimeoutMs = 15_000;

/**
 * Serves logs, exec, attach and port-forward of this node's Pods, `/healthz` and `/metrics/resource` over TLS, on the paths that kube-apiserver and
 * metrics-server use. Every request is authenticated and authorized by the cluster.
 *
 * **Errors**: rejects if the port cannot be listened on.
 */
export async function startNodeServer(options: NodeServerOptions): Promise<NodeServer> {
  const server = new KubeletHttpsServer(options);
  await server.start();
  return server;
}

class KubeletHttpsServer implements NodeServer {
  readonly #options: NodeServerOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(options: NodeServerOptions) {
    this.#options = options;
    const { tls, clientAuthority, onError } = options;
    this.#server = createServer(
      {
        cert: tls.certificate,
        key: tls.key,
        minVersion: "TLSv1.2",
        headersTimeout: headersTimeoutMs,
        handshakeTimeout: headersTimeoutMs,
        // Certificates of other authorities are ignored, and the client may have a token.
        ...(clientAuthority === undefined ? {} : { ca: clientAuthority, requestCert: true, rejectUnauthorized: false }),
      },
      (request, response) =>
        void this.#serve(request, response).catch((error: unknown) => {
          response.destroy();
          onError(error);
        }),
    );
    this.#server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on("error", () => {});
      void this.#upgrade(request, socket, head).catch((error: unknown) => {
        socket.destroy();
        onError(error);
      });
    });
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("tlsClientError", (_error, socket) => socket.destroy());
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async start(): Promise<void> {
    const { address, port, onError } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject).listen(port, address, () => {
        this.#server.off("error", reject).on("error", onError);
        resolve();
      });
    });
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      // Also those that have not finished their handshake, or have switched protocols.
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { handlers, resourceMetrics } = this.#options;
    const url = request.url ?? "/";
    const { podUrl, subresource } = parseKubeletPath(url);
    const status = await this.#refusal(request, subresource);
    if (status !== undefined) {
      response.writeHead(status.code ?? 500, { "content-type": "text/plain; charset=utf-8" }).end(status.message);
    } else if (podUrl !== undefined) {
      await servePodRequest(request, response, podUrl, handlers);
    } else if (subresource === "healthz") {
      response.writeHead(200, { "content-type": "text/plain; charset=utf-8" }).end("ok");
    } else if (resourceMetrics !== undefined && url.split("?")[0] === resourceMetricsPath) {
      response.writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }).end(resourceMetrics());
    } else response.writeHead(404, { "content-type": "text/plain; charset=utf-8" }).end("404 page not found\n");
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { podUrl: url, subresource } = parseKubeletPath(request.url ?? "/");
    const status = await this.#refusal(request, subresource);
    if (status !== undefined) rejectUpgrade(socket, status);
    else await upgradePodRequest({ request, socket, head, url: url ?? "" }, this.#options.handlers);
  }

  async #refusal(request: IncomingMessage, subresource: ReturnType<typeof parseKubeletPath>["subresource"]) {
    const { nodeName, reviews, clock } = this.#options;
    try {
      return await refusal(request, { subresource }, { nodeName, reviews, now: clock.now() });
    } catch (error) {
      return statusOf(error);
    }
  }
}
