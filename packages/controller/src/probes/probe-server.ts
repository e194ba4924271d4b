import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { Manager } from "../manager/manager.ts";
import { type AccessFilter, bearerTokenOf, isOwnHost, tokenAccess } from "./probe-access.ts";
import type { ReconcileFilter } from "../reconcile/reconcile-trace.ts";

/** Whether something works: throws (or rejects), saying why, where it does not. */
export type Check = () => void | Promise<void>;

/** Options of {@link createProbeServer}. */
export interface ProbeServerOptions {
  /** Checks of `/healthz` by name. Without any it answers ok as long as it answers. */
  readonly health?: Readonly<Record<string, Check>>;
  /** Checks of `/readyz` by name. */
  readonly ready?: Readonly<Record<string, Check>>;
  /**
   * Whose reconciles `/debug/reconciles` answers, as JSON; `controller`, `namespace` and `name` in the query select. Without it,
   * 404. Names of objects and errors are in it: for a listener that only operators of the machine reach.
   */
  readonly reconciles?: Pick<Manager, "reconciles">;
  /**
   * Who may read `/metrics` and `/debug/reconciles`: whoever has this bearer token, or whom the filter lets (`reviewedAccess` asks the
   * API server). Default: everybody who reaches the listener, so keep it on loopback.
   */
  readonly access?: string | AccessFilter;
  /**
   * Names by which those two may be asked for, beside addresses and `localhost`, where no access is asked for: a page of another name
   * that resolves to this machine is refused (DNS rebinding). Lower case, without a port.
   */
  readonly hostNames?: readonly string[];
  /** What `/metrics` answers; without it, 404. A `PrometheusMetrics` fits. */
  readonly metrics?: { scrape(): Promise<{ readonly contentType: string; readonly text: string }> };
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const plain = { type: "text/plain; charset=utf-8" };

/** A server of probes and metrics. */
export interface ProbeServer {
  /** For a server of one's own: answers the request if the path is one of its, and returns whether it was. */
  handle(request: IncomingMessage, response: ServerResponse): boolean;
  /** Listens; `port` 0 takes a free one. Answers the URL. `host` defaults to loopback. */
  listen(port: number, host?: string): Promise<string>;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes the server of `/healthz`, `/readyz` (each with `/name` for one check, `?verbose` for all results and `?exclude=name`)
 * and `/metrics`, as controller-runtime serves them, and `/debug/reconciles`. Why a check failed is not told to who asks, only to `verbose`'s list of
 * names; it may hold what is not for everybody.
 */
export function createProbeServer(options: ProbeServerOptions): ProbeServer {
  const { health = {}, ready = {}, metrics, reconciles, hostNames = [] } = options;
  const access = typeof options.access === "string" ? tokenAccess(options.access) : options.access;
  /** Why a request may not read what tells of the cluster. */
  const refusalOf = async (request: IncomingMessage, path: string): Promise<Answer | undefined> => {
    if (access === undefined) {
      if (await isOwnHost(request.headers.host, hostNames)) return undefined;
      return { ...plain, status: 403, text: "this server is not known by that name\n" };
    }
    const token = bearerTokenOf(request.headers.authorization);
    const answer = await access({ token, path, verb: (request.method ?? "GET").toLowerCase() });
    if (answer === "allowed") return undefined;
    if (answer === "forbidden") return { ...plain, status: 403, text: `not allowed to get ${path}\n` };
    return { ...plain, status: 401, text: "a bearer token is needed\n", headers: { "www-authenticate": "Bearer" } };
  };
  const handle = (request: IncomingMessage, response: ServerResponse): boolean => {
    const url = urlOf(request);
    // Such as `//`: not a path of anything.
    if (url === undefined) return false;
    const [, root = "", name, ...more] = url.pathname.split("/");
    const answer = answerOf(root, name, more.length > 0, url.searchParams);
    if (answer === undefined) return false;
    const isOpen = root === "healthz" || root === "readyz";
    const respond = async (): Promise<Answer> => {
      const refusal = isOpen ? undefined : await refusalOf(request, url.pathname);
      if (refusal !== undefined) return refusal;
      if (request.method === "GET" || request.method === "HEAD") return answer();
      return { ...plain, status: 405, text: "only GET is allowed\n", headers: { allow: "GET, HEAD" } };
    };
    respond().then(
      (each) => send(response, each),
      () => send(response, { ...plain, status: 500, text: "internal error\n" }),
    );
    return true;
  };

  const answerOf = (
    root: string,
    name: string | undefined,
    isDeeper: boolean,
    query: URLSearchParams,
  ): (() => Promise<Answer>) | undefined => {
    if (isDeeper) return undefined;
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
      const outcome = await run(root, name === "" ? undefined : name, checks, query);
      return { ...plain, ...outcome };
    };
  };

  let server: Server | undefined;
  const listen = async (port: number, host = "127.0.0.1"): Promise<string> => {
    // Loaded when somebody listens: most programs that import the runtime, tests before all, never do.
    const { createServer } = await import("node:http");
    if (server !== undefined) throw new Error("the probe server listens already");
    const listening = createServer((request, response) => {
      if (!handle(request, response)) send(response, { ...plain, status: 404, text: "not found\n" });
    });
    server = listening;
    // A client that sends its head byte by byte must not hold a socket.
    listening.headersTimeout = 32_000;
    listening.keepAliveTimeout = 90_000;
    try {
      listening.listen(port, host);
      await once(listening, "listening");
    } catch (error) {
      server = undefined;
      throw error;
    }
    const { port: bound } = listening.address() as AddressInfo;
    return `http://${host.includes(":") ? `[${host}]` : host}:${bound}`;
  };
  const stop = async (): Promise<void> => {
    const listening = server;
    server = undefined;
    if (listening === undefined) return;
    await new Promise<void>((resolve) => {
      listening.close(() => resolve());
      listening.closeAllConnections();
    });
  };
  return { handle, listen, stop, [Symbol.asyncDispose]: stop };
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

async function run(
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

function send(response: ServerResponse, { status, type, text, headers }: Answer): void {
  response.writeHead(status, { "content-type": type, "x-content-type-options": "nosniff", ...headers });
  response.end(text);
}
