import type { Dispatcher } from "undici";
import type { Credentials } from "./credentials.ts";

/** What a connection is made with. */
export interface ConnectionOptions {
  /** PEM. Default: the system's authorities. */
  readonly ca?: string;
  readonly insecureSkipTlsVerify?: boolean;
  /** The name that the server's certificate has to bear. Default: the host of the URL. */
  readonly tlsServerName?: string;
  /** `http://` or `https://` proxy for every connection. */
  readonly proxyUrl?: string;
  /** Connections for requests at the same time; further requests wait for one. Watches are not counted. Default 64. */
  readonly maxConnections?: number;
  /** Longest wait for the head of an answer, and between two pieces of it. Watches have none. Default 65000. */
  readonly requestTimeoutMs?: number;
}

/** Two pools: a watch holds its connection for minutes, and must never keep a request waiting for one. */
export interface Pools {
  readonly requests: Dispatcher;
  readonly watches: Dispatcher;
}

const tcpKeepAliveMs = 30_000;
const connectTimeoutMs = 30_000;

/** Makes pools and replaces them when the client certificate changes; requests under way finish on the old ones. */
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
      this.#current = { certificate, pools: this.#make(credentials) };
      if (old !== undefined) void this.#retire(old.pools);
    }
    return this.#current.pools;
  }

  /** Breaks off every request and frees every socket. */
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
      // A pool that could not be made has nothing to close, and one destroyed meanwhile is closed.
    }
  }

  async #make(credentials: Credentials): Promise<Pools> {
    // Loading undici takes longer than everything else here, and in-process clients never need it.
    const { Agent, ProxyAgent } = await import("undici");
    const options = this.#options;
    const tls = {
      timeout: connectTimeoutMs,
      keepAlive: true,
      keepAliveInitialDelay: tcpKeepAliveMs,
      ...(options.ca === undefined ? {} : { ca: options.ca }),
      ...(options.insecureSkipTlsVerify ? { rejectUnauthorized: false } : {}),
      ...(options.tlsServerName === undefined ? {} : { servername: options.tlsServerName }),
      ...(credentials.clientCertificate === undefined ? {} : { cert: credentials.clientCertificate }),
      ...(credentials.clientKey === undefined ? {} : { key: credentials.clientKey }),
    };
    const make = (timeoutMs: number, connections: number | null): Dispatcher => {
      const pool = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs, connections, pipelining: 1 };
      const dispatcher =
        options.proxyUrl === undefined
          ? new Agent({ ...pool, connect: tls })
          : new ProxyAgent({ ...pool, uri: options.proxyUrl, requestTls: tls, proxyTunnel: true });
      this.#alive.add(dispatcher);
      return dispatcher;
    };
    return { requests: make(options.requestTimeoutMs ?? 65_000, options.maxConnections ?? 64), watches: make(0, null) };
  }
}
