import type { IncomingMessage } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { buffer } from "node:stream/consumers";
import { statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { isProxyableAddress } from "../endpoints/proxy/proxyable-address.ts";
import type { Endpoint } from "../registry/ready-endpoints.ts";
import { serviceName } from "../webhooks/webhook-target.ts";
import type { RemoteApi } from "./api-service.ts";
import { type FrontProxy, userHeaders } from "./front-proxy.ts";

/** The certificates and the server name of a connection to an extension API server. */
export function connectionOptions(api: RemoteApi, frontProxy: FrontProxy): RequestOptions {
  return {
    servername: serviceName(api.service),
    rejectUnauthorized: !api.skipsVerification,
    ...(api.authorities === undefined ? {} : { ca: api.authorities }),
    cert: frontProxy.certificate,
    key: frontProxy.key,
  };
}

/** What {@link fetchFromService} and {@link fetchStatus} take. */
export interface ServiceRequestOptions {
  readonly api: RemoteApi;
  readonly endpoint: Endpoint;
  readonly frontProxy: FrontProxy;
  readonly path: string;
  readonly accept: string;
  readonly clock: Pick<Clock, "setTimer">;
}

/** A complete response. */
export interface ServiceResponse {
  readonly status: number;
  readonly contentType: string;
  /** Of a redirect; otherwise `""`. */
  readonly location: string;
  readonly body: Buffer;
}

const timeoutMs = 5_000;
const maxResponseBytes = 32 * 1024 * 1024;

/** Reads a document of an extension API server as the aggregator itself. Rejects if it cannot be read within 5 s. */
export function fetchFromService(options: ServiceRequestOptions): Promise<ServiceResponse> {
  return exchange(options, async (response) => {
    let size = 0;
    response.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxResponseBytes) response.destroy(statusError("InternalError", "the response is too large"));
    });
    const { statusCode: status = 0, headers } = response;
    const body = await buffer(response);
    return { status, contentType: headers["content-type"] ?? "", location: headers.location ?? "", body };
  });
}

/** Returns the HTTP status of a document without reading it. Rejects if there is no response within 5 s. */
export function fetchStatus(options: ServiceRequestOptions): Promise<number> {
  return exchange(options, async (response) => {
    response.destroy();
    return response.statusCode ?? 0;
  });
}

async function exchange<T>(options: ServiceRequestOptions, read: (response: IncomingMessage) => Promise<T>): Promise<T> {
  const { api, endpoint, frontProxy, path, accept, clock } = options;
  requireProxyable(endpoint);
  const headers = { accept, ...userHeaders({ username: "system:kube-aggregator", groups: ["system:masters"] }) };
  const abort = new AbortController();
  const timer = clock.setTimer(timeoutMs, () => abort.abort(), { background: true });
  try {
    return await new Promise<T>((resolve, reject) => {
      const fail = (error: Error): void => reject(abort.signal.aborted ? timedOut() : error);
      const request = httpsRequest(
        { ...endpoint, ...connectionOptions(api, frontProxy), path, headers, agent: false, signal: abort.signal },
        (response) => void read(response).then(resolve, fail),
      );
      request.on("error", fail);
      request.end();
    });
  } finally {
    timer.cancel();
  }
}

/** Throws for an address that proxies must not connect to. */
export function requireProxyable({ host }: Endpoint): void {
  if (!isProxyableAddress(host)) throw statusError("BadRequest", "address not allowed");
}

function timedOut(): Error {
  return statusError("Timeout", "context deadline exceeded");
}
