import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { ApiRequest, ApiResponse, ByteStream, Transport, WatchStream } from "@keelson/api-machinery/transport";
import type { Dispatcher } from "undici";
import { statusErrorOf } from "./response-status.ts";
import { byteStream } from "./byte-stream.ts";
import { type ConnectionOptions, ConnectionPools, type Pools } from "./connection-pools.ts";
import { authorizationOf, type Credentials, type CredentialSource } from "./credentials.ts";
import { type UpgradedConnection, upgradeConnection } from "./http-upgrade.ts";
import { contentOf, headersOf, pathOf, readBody } from "./http-message.ts";
import { HttpWatch } from "../watch/http-watch.ts";
import { type Impersonation, impersonationHeaders } from "./impersonation.ts";
import { isTransportError, TransportError } from "./transport-error.ts";
import { transportErrorOf } from "./undici-error.ts";

/** Options of {@link createHttpTransport}. */
export interface HttpTransportOptions extends ConnectionOptions {
  /** `https://host:port`, with a path if the API is served below one. */
  readonly server: string;
  /** PEM. */
  readonly clientCertificate?: string;
  /** PEM. */
  readonly clientKey?: string;
  /** A bearer token, or a function that returns one and is called before every request. */
  readonly token?: string | (() => string | Promise<string>);
  /** Credentials that change over time. Replaces the three options above. */
  readonly credentials?: CredentialSource;
  readonly impersonate?: Impersonation;
  /** Maximum length of a watch event. Default 16 MiB. */
  readonly maxLineBytes?: number;
  readonly clock?: Clock;
}

/** A transport that supports protocol upgrades. */
export interface UpgradingTransport extends Transport {
  /**
   * Upgrades a dedicated connection to another protocol, for exec and port-forward. The caller closes the socket; `close` does not.
   * Errors are those of `request`, and a StatusError if the server rejects the upgrade.
   */
  upgrade(
    request: ApiRequest & { /** Value of the header `Upgrade`. */ readonly protocol: string },
  ): Promise<UpgradedConnection>;
}

/** A watch that is silent for this long after its `timeoutSeconds` is considered lost. */
const watchGraceMs = 5_000;

/** Maximum silence of a watch without `timeoutSeconds`: slightly more than the server's maximum. */
const maxSilenceMs = 65 * 60_000;

/**
 * Creates a transport over HTTP/1.1. Connections are kept alive and reused; every watch has its own connection.
 *
 * **Guarantees**: a watch that is silent for 5 s longer than its `timeoutSeconds` fails instead of hanging. Aborting a request closes its
 * socket. No socket is left after `close`.
 *
 * **Errors**: `TransportError` if there is no complete response; the signal's reason if it was aborted.
 */
export function createHttpTransport(options: HttpTransportOptions): UpgradingTransport {
  return new HttpTransport(options);
}

class HttpTransport implements UpgradingTransport {
  readonly #origin: string;
  readonly #prefix: string;
  readonly #credentials: CredentialSource;
  readonly #impersonation: Readonly<Record<string, string | string[]>>;
  readonly #pools: ConnectionPools;
  readonly #clock: Clock;
  readonly #maxLineBytes: number;
  readonly #watches = new Set<HttpWatch>();
  #closed = false;

  constructor(options: HttpTransportOptions) {
    const url = parseServer(options.server);
    this.#origin = url.origin;
    this.#prefix = url.pathname.replace(/\/+$/, "");
    this.#credentials = options.credentials ?? fixedCredentials(options);
    this.#impersonation = options.impersonate ? impersonationHeaders(options.impersonate) : {};
    this.#pools = new ConnectionPools(options);
    this.#clock = options.clock ?? systemClock;
    this.#maxLineBytes = options.maxLineBytes ?? 16 * 1024 * 1024;
  }

  async request(request: ApiRequest): Promise<ApiResponse> {
    try {
      return await this.#attempt(request);
    } catch (error) {
      // The server may close an idle connection just when it is reused. GET is safe to repeat.
      if (request.method === "GET" && isTransportError(error, "ConnectionLost") && !this.#closed) {
        return this.#attempt(request, 1);
      }
      throw error;
    }
  }

  async watch(request: ApiRequest): Promise<WatchStream> {
    const seconds = Number(request.query?.["timeoutSeconds"] ?? 0);
    const watch = new HttpWatch({
      clock: this.#clock,
      silenceMs: seconds > 0 ? seconds * 1000 + watchGraceMs : maxSilenceMs,
      maxLineBytes: this.#maxLineBytes,
      decode: request.decode,
      signal: request.signal,
      onEnd: () => this.#watches.delete(watch),
    });
    this.#watches.add(watch);
    try {
      const response = await this.#authorized(request, (pools) => pools.watches, watch.signal);
      if (response.statusCode !== 200) {
        const { value } = await readBody(response);
        throw statusErrorOf(response.statusCode, value, `watch ${request.path}`);
      }
      watch.open(response.body);
      return watch;
    } catch (error) {
      const reason = watch.failure ?? error;
      watch.close();
      throw this.#explain(reason, request);
    }
  }

  async stream(request: ApiRequest): Promise<ByteStream> {
    const stop = new AbortController();
    const signal = request.signal === undefined ? stop.signal : AbortSignal.any([request.signal, stop.signal]);
    try {
      const response = await this.#authorized(
        { ...request, headers: { accept: "*/*", ...request.headers } },
        (pools) => pools.watches,
        signal,
      );
      if (response.statusCode !== 200) {
        throw statusErrorOf(response.statusCode, (await readBody(response)).value, request.path);
      }
      return byteStream(response.body, signal, stop, (error) => this.#explain(error, request));
    } catch (error) {
      throw this.#explain(error, request);
    }
  }

  async upgrade(request: ApiRequest & { readonly protocol: string }): Promise<UpgradedConnection> {
    try {
      const credentials = await this.#credentials.get(request.signal);
      const { watches } = await this.#pools.get(credentials);
      return await upgradeConnection(watches, {
        origin: this.#origin,
        path: this.#prefix + pathOf(request),
        headers: this.#headersFor(request, credentials),
        protocol: request.protocol,
        signal: request.signal,
      });
    } catch (error) {
      throw this.#explain(error, request);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const watch of this.#watches) watch.close();
    await this.#pools.destroy(new TransportError("Closed", "the transport is closed"));
  }

  async #attempt(request: ApiRequest, repeats = 0): Promise<ApiResponse> {
    try {
      const content = contentOf(request);
      const response = await this.#authorized(request, (pools) => pools.requests, request.signal, content);
      const { value, bytes } = await readBody(response);
      const wire = { sentBytes: content === null ? 0 : Buffer.byteLength(content), receivedBytes: bytes, repeats };
      return { status: response.statusCode, headers: headersOf(response), body: value, wire };
    } catch (error) {
      throw this.#explain(error, request);
    }
  }

  /** Sends the request with credentials, and once more with new ones if the server rejects them. */
  async #authorized(
    request: ApiRequest,
    pool: (pools: Pools) => Dispatcher,
    signal: AbortSignal | undefined,
    content: string | null = contentOf(request),
  ): Promise<Dispatcher.ResponseData> {
    for (let attempt = 0; ; attempt++) {
      if (this.#closed) throw new TransportError("Closed", "the transport is closed");
      signal?.throwIfAborted();
      const credentials = await this.#credentials.get(signal);
      const dispatcher = pool(await this.#pools.get(credentials));
      const response = await dispatcher.request({
        origin: this.#origin,
        path: this.#prefix + pathOf(request),
        method: request.method,
        headers: this.#headersFor(request, credentials),
        body: content,
        ...(signal === undefined ? {} : { signal }),
      });
      if (response.statusCode !== 401 || attempt > 0 || this.#credentials.invalidate === undefined) return response;
      await response.body.dump();
      this.#credentials.invalidate();
    }
  }

  #headersFor(request: ApiRequest, credentials: Credentials): Record<string, string | string[]> {
    const authorization = authorizationOf(credentials);
    return {
      accept: "application/json",
      ...(request.body === undefined ? {} : { "content-type": "application/json" }),
      ...request.headers,
      ...this.#impersonation,
      ...(authorization === undefined ? {} : { authorization }),
    };
  }

  #explain(error: unknown, request: ApiRequest): unknown {
    if (request.signal?.aborted) return request.signal.reason;
    if (this.#closed) return new TransportError("Closed", "the transport is closed", { cause: error });
    return transportErrorOf(error, `${request.method} ${this.#origin}${this.#prefix}${request.path}`);
  }
}

function parseServer(server: string): URL {
  let url: URL;
  try {
    url = new URL(server);
  } catch {
    throw new TypeError(`server ${JSON.stringify(server)} is not a valid URL; use the form https://host:port`);
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new TypeError(
      `server ${JSON.stringify(server)} has the scheme ${url.protocol}//; only https:// and http:// are supported`,
    );
  }
  return url;
}

function fixedCredentials(options: HttpTransportOptions): CredentialSource {
  const { token, clientCertificate, clientKey } = options;
  const certificate = {
    ...(clientCertificate === undefined ? {} : { clientCertificate }),
    ...(clientKey === undefined ? {} : { clientKey }),
  };
  if (typeof token !== "function") {
    const credentials = { ...certificate, ...(token === undefined ? {} : { token }) };
    return { get: () => Promise.resolve(credentials) };
  }
  return { get: async () => ({ ...certificate, token: await token() }) };
}
