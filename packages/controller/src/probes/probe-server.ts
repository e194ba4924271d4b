import { once } from "node:events";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import type { Manager } from "../manager/manager.ts";
import { type AccessFilter, bearerTokenOf, isTrustedHost, tokenAccess } from "./probe-access.ts";
import type { ReconcileFilter } from "../reconcile/reconcile-trace.ts";

/** A check of a probe. Throws or rejects if it fails. */
export type Check = () => void | Promise<void>;

/** Options of {@link createProbeServer}. */
export interface ProbeServerOptions {
  /** Checks of `/healthz` by name. Without checks it succeeds as long as the process responds. */
  readonly health?: Readonly<Record<string, Check>>;
  /** Checks of `/readyz` by name. */
  readonly ready?: Readonly<Record<string, Check>>;
  /**
   * Serves the reconciles of this manager at `/debug/reconciles` as JSON, filtered by `controller`, `namespace` and `name` in the query.
   * They contain names of objects and error messages. Default: 404.
   */
  readonly reconciles?: Pick<Manager, "reconciles">;
  /**
   * Who may read `/metrics` and `/debug/reconciles`: clients with this bearer token, or those that the filter allows (`reviewedAccess` asks
   * the API server). Default: everyone who reaches the listener, so keep it on loopback.
   */
  readonly access?: string | AccessFilter;
  /**
   * Host names that requests to those two paths may use in addition to IP addresses and `localhost`, if `access` is not set. Others are refused
   * as a protection against DNS rebinding. Lower case, without a port.
   */
  readonly hostNames?: readonly string[];
  /** Serves TLS with this certificate, in PEM. Default: plain HTTP. */
  readonly tls?: KeyPair;
  /** Serves `/metrics`, for example a `PrometheusMetrics`. Default: 404. */
  readonly metrics?: { scrape(): Promise<{ readonly contentType: string; readonly text: string }> };
}

interface ProbeResponse {
  readonly status: number;
  readonly type: string;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const plain = { type: "text/plain; charset=utf-8" };

/** A server of probes and metrics. */
export interface ProbeServer {
  /** For use in another server: handles the request if its path belongs to the probe server, and returns whether it does. */
  handle(request: IncomingMessage, response: ServerResponse): boolean;
  /** Listens; port 0 picks a free one. Resolves to the URL. `host` defaults to loopback. */
  listen(port: number, host?: string): Promise<string>;
  /** Replaces the certificate for new connections. No effect without TLS. */
  setCertificate(pair: KeyPair): void;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Creates a server of `/healthz` and `/readyz` (with `/NAME` for a single check, `?verbose` for all results, and `?exclude=NAME`),
 * `/metrics`, as in controller-runtime, and `/debug/reconciles`. The reason of a failed check is not served, because it may be
 * confidential; `?verbose` lists only the names.
 */
export function createProbeServer(options: ProbeServerOptions): ProbeServer {
  return new HttpProbeServer(options);
}

class HttpProbeServer implements ProbeServer {
  readonly #options: ProbeServerOptions;
  readonly #access: AccessFilter | undefined;
  #server: Server | TlsServer | undefined;
  #certificate: KeyPair | undefined;

  constructor(options: ProbeServerOptions) {
    this.#options = options;
    this.#certificate = options.tls;
    this.#access = typeof options.access === "string" ? tokenAccess(options.access) : options.access;
  }

  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const url = urlOf(request);
    // For example `//`, which is not a valid URL path.
    if (url === undefined) return false;
    const [, root = "", name, ...more] = url.pathname.split("/");
    const serve = more.length > 0 ? undefined : this.#endpoint(root, name, url.searchParams);
    if (serve === undefined) return false;
    const isOpen = root === "healthz" || root === "readyz";
    const respond = async (): Promise<ProbeResponse> => {
      const refusal = isOpen ? undefined : await this.#refusal(request, url.pathname);
      if (refusal !== undefined) return refusal;
      if (request.method === "GET" || request.method === "HEAD") return serve();
      return { ...plain, status: 405, text: "only GET is allowed\n", headers: { allow: "GET, HEAD" } };
    };
    respond().then(
      (each) => send(response, each),
      () => send(response, { ...plain, status: 500, text: "internal error\n" }),
    );
    return true;
  }

  async listen(port: number, host = "127.0.0.1"): Promise<string> {
    const isTls = this.#certificate !== undefined;
    const server = await createServer(this.#certificate, (request, response) => {
      if (!this.handle(request, response)) send(response, { ...plain, status: 404, text: "not found\n" });
    });
    if (this.#server !== undefined) throw new TypeError("the probe server is already listening");
    this.#server = server;
    // Limits clients that send their request byte by byte.
    server.headersTimeout = 32_000;
    server.keepAliveTimeout = 90_000;
    try {
      server.listen(port, host);
      await once(server, "listening");
    } catch (error) {
      this.#server = undefined;
      throw error;
    }
    const { port: bound } = server.address() as AddressInfo;
    return `${isTls ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${bound}`;
  }

  setCertificate(pair: KeyPair): void {
    this.#certificate &&= pair;
    if (this.#server !== undefined && "setSecureContext" in this.#server) this.#server.setSecureContext(contextOf(pair));
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** The response that refuses a request for information about the cluster; `undefined` if it is allowed. */
  async #refusal(request: IncomingMessage, path: string): Promise<ProbeResponse | undefined> {
    if (this.#access === undefined) {
      if (await isTrustedHost(request.headers.host, this.#options.hostNames ?? [])) return undefined;
      return { ...plain, status: 403, text: "host name not allowed\n" };
    }
    const token = bearerTokenOf(request.headers.authorization);
    const access = await this.#access({ token, path, verb: (request.method ?? "GET").toLowerCase() });
    if (access === "allowed") return undefined;
    if (access === "forbidden") return { ...plain, status: 403, text: `not allowed to get ${path}\n` };
    return { ...plain, status: 401, text: "bearer token required\n", headers: { "www-authenticate": "Bearer" } };
  }

  #endpoint(root: string, name: string | undefined, query: URLSearchParams): (() => Promise<ProbeResponse>) | undefined {
    const { metrics, reconciles, health = {}, ready = {} } = this.#options;
    if (root === "debug" && name === "reconciles" && reconciles !== undefined) {
      return async () => {
        const text = `${JSON.stringify(reconciles.reconciles(filterOf(query)))}\n`;
        return { status: 200, type: "application/json", text };
      };
    }
    if (root === "metrics" && metrics !== undefined && name === undefined) {
      return async () => {
        const { contentType, text } = await metrics.scrape();
        return { status: 200, type: contentType, text };
      };
    }
    const checks = root === "healthz" ? health : root === "readyz" ? ready : undefined;
    if (checks === undefined) return undefined;
    if (name !== undefined && name !== "" && !Object.hasOwn(checks, name) && name !== "ping") return undefined;
    return async () => {
      const outcome = await runChecks(root, name === "" ? undefined : name, checks, query);
      return { ...plain, ...outcome };
    };
  }
}

const contextOf = ({ certificate: cert, key }: KeyPair) => ({ cert, key, minVersion: "TLSv1.2" as const });

/** The modules are loaded lazily: most programs that import the runtime, above all tests, never listen. */
async function createServer(certificate: KeyPair | undefined, listener: RequestListener): Promise<Server | TlsServer> {
  if (certificate === undefined) return (await import("node:http")).createServer(listener);
  return (await import("node:https")).createServer(contextOf(certificate), listener);
}

function urlOf({ url = "/" }: IncomingMessage): URL | undefined {
  return URL.canParse(url, "http://probe") ? new URL(url, "http://probe") : undefined;
}

function filterOf(query: URLSearchParams): ReconcileFilter {
  const field = (name: keyof ReconcileFilter): ReconcileFilter => {
    const value = query.get(name);
    return value === null ? {} : { [name]: value };
  };
  return { ...field("controller"), ...field("namespace"), ...field("name") };
}

async function runChecks(
  root: string,
  name: string | undefined,
  checks: Readonly<Record<string, Check>>,
  query: URLSearchParams,
): Promise<{ status: number; text: string }> {
  const excluded = new Set(query.getAll("exclude"));
  const chosen = Object.entries(checks).filter(([each]) => (name === undefined ? !excluded.has(each) : each === name));
  const results = await Promise.all(
    chosen.map(async ([each, check]) => {
      try {
        await check();
        return { each, isOk: true };
      } catch {
        return { each, isOk: false };
      }
    }),
  );
  const lines =
    results.length === 0 ? ["[+]ping ok"] : results.map(({ each, isOk }) => (isOk ? `[+]${each} ok` : `[-]${each} failed`));
  for (const each of excluded)
    if (!Object.hasOwn(checks, each)) lines.push(`warn: no check ${JSON.stringify(each)} to exclude`);
  if (results.every(({ isOk }) => isOk)) {
    return { status: 200, text: query.has("verbose") ? `${lines.join("\n")}\n${root} check passed\n` : "ok" };
  }
  return { status: 500, text: `${lines.join("\n")}\n${root} check failed\n` };
}

function send(response: ServerResponse, { status, type, text, headers }: ProbeResponse): void {
  response.writeHead(status, { "content-type": type, "x-content-type-options": "nosniff", ...headers });
  response.end(text);
}
