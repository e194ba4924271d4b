import type { SecureContext } from "node:tls";
import type { Dispatcher } from "undici";
import type { Credentials } from "./credentials.ts";

/** Options of connections. */
export interface ConnectionOptions {
  /** PEM. Default: the certificate authorities of Node.js. */
  readonly ca?: string;
  readonly insecureSkipTlsVerify?: boolean;
  /** Name to verify in the server's certificate. Default: the host of the URL. */
  readonly tlsServerName?: string;
  /** Unix socket to connect to instead of the host of the URL. */
  readonly socketPath?: string;
  /** `http://` or `https://` proxy for every connection. */
  readonly proxyUrl?: string;
  /** Maximum number of connections for requests; further requests wait. Watches are not counted. Default 64. */
  readonly maxConnections?: number;
  /** Maximum time until the response headers, and between two chunks of the body. Not for watches. Default 65000. */
  readonly requestTimeoutMs?: number;
  /** Maximum length of a response body. Not for watches. Default: not limited. */
  readonly maxBodyBytes?: number;
}

/** Separate pools: a watch holds its connection for minutes, and must not make requests wait. */
export interface Pools {
  readonly requests: Dispatcher;
  readonly watches: Dispatcher;
}

const tcpKeepAliveMs = 30_000;
const connectTimeoutMs = 30_000;

/** Creates pools, and replaces them when the client certificate changes. Requests in flight finish on the old pools. */
export class ConnectionPools {
  readonly #options: ConnectionOptions;
  readonly #alive = new Set<Dispatcher>();
  #current: { readonly certificate: string; readonly pools: Promise<Pools> } | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  get(credentials: Credentials): Promise<Pools> {
    const certificate = `${credentials.clientCertificate ?? ""}\n${credentials.clientKey ?? ""}`;
    if (this.#current?.certificate !== certificate) {
      const old = this.#current;
      this.#current = { certificate, pools: this.#create(credentials) };
      if (old !== undefined) void this.#retire(old.pools);
    }
    return this.#current.pools;
  }

  /** Aborts every request and closes every socket. */
  async destroy(error: Error): Promise<void> {
    await this.#current?.pools.catch(() => {});
    await Promise.allSettled([...this.#alive].map((pool) => pool.destroy(error)));
    this.#alive.clear();
  }

  async #retire(pools: Promise<Pools>): Promise<void> {
    try {
      const { requests, watches } = await pools;
      await Promise.all([requests, watches].map((pool) => pool.close().finally(() => this.#alive.delete(pool))));
    } catch {
      // A pool that could not be created has nothing to close, and one that was destroyed meanwhile is closed.
    }
  }

  async #create(credentials: Credentials): Promise<Pools> {
    // Loaded lazily: undici takes longest to load, and in-process clients do not need it.
    const { Agent, buildConnector, ProxyAgent } = await import("undici");
    const options = this.#options;
    const secureContext = await secureContextOf(options, credentials);
    const tls = {
      timeout: connectTimeoutMs,
      keepAlive: true,
      keepAliveInitialDelay: tcpKeepAliveMs,
      ...(secureContext === undefined ? {} : { secureContext }),
      ...(options.insecureSkipTlsVerify ? { rejectUnauthorized: false } : {}),
      ...(options.socketPath === undefined ? {} : { socketPath: options.socketPath }),
      ...(options.tlsServerName === undefined ? {} : { servername: options.tlsServerName }),
    };
    // Both pools resume each other's TLS sessions.
    const connect = buildConnector(tls);
    const createPool = (timeoutMs: number, connections: number | null, maxResponseSize = -1): Dispatcher => {
      const pool = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs, connections, pipelining: 1, maxResponseSize };
      const dispatcher =
        options.proxyUrl === undefined
          ? new Agent({ ...pool, connect })
          : new ProxyAgent({ ...pool, uri: options.proxyUrl, requestTls: tls, proxyTunnel: true });
      this.#alive.add(dispatcher);
      return dispatcher;
    };
    return {
      requests: createPool(options.requestTimeoutMs ?? 65_000, options.maxConnections ?? 64, options.maxBodyBytes),
      watches: createPool(0, null),
    };
  }
}

/** The parsed certificates, which all connections share. `undefined` if there are none. */
async function secureContextOf(options: ConnectionOptions, credentials: Credentials): Promise<SecureContext | undefined> {
  const { ca } = options;
  const { clientCertificate: cert, clientKey: key } = credentials;
  if (ca === undefined && cert === undefined && key === undefined) return undefined;
  const { createSecureContext } = await import("node:tls");
  return createSecureContext({ ca, cert, key });
}
