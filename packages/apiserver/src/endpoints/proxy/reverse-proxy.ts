import { type ClientRequest, type IncomingMessage, request as httpRequest, STATUS_CODES } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";
import { statusError } from "@keelson/api-machinery";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Call } from "../call.ts";
import { badRequest } from "../errors.ts";
import type { ForwardedRequest, Outcome, RawOutcome, UpgradeOutcome } from "../outcome.ts";
import type { SubresourceHandler } from "../subresources/pod-subresources.ts";
import { withLinksThroughProxy } from "./proxied-links.ts";
import { nodeTarget, type ProxyTarget } from "./proxy-target.ts";

/** Headers that concern one connection only (RFC 9110 section 7.6.1), and credentials, which are the API server's alone. */
const droppedHeaders: ReadonlySet<string> = new Set([
  "authorization",
  "connection",
  "cookie",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Passes a request below `.../proxy` on to `target` and its response back, as kube-apiserver's proxy does: the certificate of an HTTPS
 * target is not verified, links in HTML and `Location` headers lead back through the proxy, and a GET without a path is redirected to one
 * that ends in `/`.
 */
export async function proxyTo(call: Call, findTarget: (call: Call) => ProxyTarget): Promise<Outcome> {
  const { forwarded } = call.request;
  if (forwarded === undefined) throw badRequest("a proxied request must be sent over HTTP");
  const target = findTarget(call);
  const route = routeOf(forwarded);
  const isRead = forwarded.method === "GET" || forwarded.method === "HEAD";
  if (forwarded.isUpgrade) return switchProtocol(target, route, forwarded, call);
  if (route.path === "" && isRead) {
    return { kind: "raw", status: 301, headers: { location: `${route.prefix}/${route.query}` }, body: "" };
  }
  return withLinksThroughProxy(await exchange(target, route, forwarded, call.request.signal, call), {
    method: forwarded.method,
    prefix: route.prefix,
    targetHost: hostOf(target),
    senderHost: forwarded.headers.host ?? "",
  });
}

/** Creates the handler of `nodes/proxy` for a kubelet that serves on a Unix socket. */
export function createNodeProxy(socketPath: string): SubresourceHandler {
  return (call) => proxyTo(call, () => nodeTarget(call, socketPath));
}

/** A request's URL around the word `proxy`. */
export interface Route {
  /** The path up to and including `proxy`. */
  readonly prefix: string;
  /** The rest of the path, with its leading slash; `""` if there is none. */
  readonly path: string;
  /** With `?`; `""` if there is none. */
  readonly query: string;
}

/** Splits a raw URL: what follows `proxy` is passed on unchanged. */
function routeOf({ url }: ForwardedRequest): Route {
  const mark = url.indexOf("?");
  const full = mark < 0 ? url : url.slice(0, mark);
  const match = /^((?:\/[^/]+){2,7}?\/proxy)(\/.*)?$/.exec(full);
  return { prefix: match?.[1] ?? full, path: match?.[2] ?? "", query: mark < 0 ? "" : url.slice(mark) };
}

function outgoingOf(target: ProxyTarget, route: Route, forwarded: ForwardedRequest, isUpgrade: boolean) {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(forwarded.headers)) {
    // `x-keelson-` headers are from the API server to the kubelet.
    const isIdentity = target.identity !== undefined && name.startsWith("x-remote-");
    const isKept = !droppedHeaders.has(name) && !/^(impersonate|x-keelson)-/.test(name) && !isIdentity;
    if (value !== undefined && isKept) headers[name] = value;
  }
  setFraming(headers, forwarded, isUpgrade);
  const { host } = forwarded.headers;
  if (host !== undefined) headers["x-forwarded-host"] = host;
  headers["x-forwarded-proto"] = "https";
  headers["x-forwarded-uri"] = `${route.prefix}${route.path}`;
  headers["host"] = hostOf(target);
  Object.assign(headers, target.identity?.headers);
  const send = target.scheme === "https" ? httpsRequest : httpRequest;
  return send({
    ...(target.socketPath === undefined ? { host: target.host, port: target.port } : { socketPath: target.socketPath }),
    method: forwarded.method,
    path: `${route.path === "" ? "/" : route.path}${route.query}`,
    headers,
    agent: false,
    rejectUnauthorized: false,
    ...target.identity?.connection,
  });
}

const hostOf = ({ host, port }: ProxyTarget): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/**
 * Frames the body as it arrived. Node adds no framing to a DELETE, GET or OPTIONS, and its body would be read as another request. Of the
 * client's `Connection`, only the upgrade is passed on: other names in it could make the target drop the sender's identity.
 */
function setFraming(
  headers: Record<string, string | string[]>,
  { headers: { upgrade, "transfer-encoding": encoding } }: ForwardedRequest,
  isUpgrade: boolean,
): void {
  if (isUpgrade || encoding !== undefined) delete headers["content-length"];
  if (isUpgrade) Object.assign(headers, { connection: "Upgrade", upgrade });
  else if (encoding !== undefined) headers["transfer-encoding"] = "chunked";
}

/** The clock of a proxy's timeouts. Default: that of the machine. */
type Timing = { readonly clock: Pick<Clock, "setTimer"> };

const machineTiming: Timing = { clock: systemClock };

/** How long a connection, or the explanation of a refused upgrade, may take. kube-apiserver's dialer has the same limit. */
const timeoutMs = 30_000;

/** Destroys a request whose connection is not established in time. */
function limitDial(outgoing: ClientRequest, { scheme, host, port }: ProxyTarget, { clock }: Timing): void {
  const expire = (): void => void outgoing.destroy(new Error(`dial tcp ${host}:${port}: i/o timeout`));
  const timer = clock.setTimer(timeoutMs, expire, { background: true });
  outgoing.once("socket", (socket) => socket.once(scheme === "https" ? "secureConnect" : "connect", () => timer.cancel()));
  outgoing.once("close", () => timer.cancel());
}

/** Sends a request to `target` and returns its response. Rejects with `ServiceUnavailable` if it cannot be reached within 30 s. */
export function exchange(
  target: ProxyTarget,
  route: Route,
  forwarded: ForwardedRequest,
  signal: AbortSignal | undefined,
  timing = machineTiming,
): Promise<RawOutcome> {
  return new Promise((resolve, reject) => {
    const outgoing = outgoingOf(target, route, forwarded, false);
    limitDial(outgoing, target, timing);
    const abort = (): void => void outgoing.destroy();
    signal?.addEventListener("abort", abort, { once: true });
    outgoing.once("close", () => signal?.removeEventListener("abort", abort));
    // A connection may fail more than once, even after its response has begun.
    outgoing.on("error", (error) => reject(unreachable(error)));
    outgoing.once("response", (response) =>
      resolve({
        kind: "raw",
        status: response.statusCode ?? 502,
        headers: responseHeaders(response, target, route),
        ...(response.headers["set-cookie"] === undefined ? {} : { cookies: response.headers["set-cookie"] }),
        body: response,
      }),
    );
    forwarded.body().pipe(outgoing);
  });
}

function responseHeaders(response: IncomingMessage, target: ProxyTarget, route: Route): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers)) {
    if (typeof value === "string" && !droppedHeaders.has(name)) headers[name] = value;
  }
  const { location } = response.headers;
  if (location !== undefined) headers["location"] = throughProxy(location, target, route);
  return headers;
}

/** A `Location` at the target's own address, as a path below the proxy's. Others stay. */
function throughProxy(location: string, target: ProxyTarget, { prefix, path }: Route): string {
  const base = `${target.scheme}://${target.host}:${target.port}`;
  const resolved = URL.canParse(location, `${base}${path}`) ? new URL(location, `${base}${path}`) : undefined;
  if (resolved === undefined || resolved.hostname !== new URL(base).hostname) return location;
  return `${prefix}${resolved.pathname}${resolved.search}${resolved.hash}`;
}

function unreachable(error: Error): Error {
  return statusError("ServiceUnavailable", `error trying to reach service: ${error.message}`);
}

/** Passes a protocol upgrade on to `target`. */
export function switchProtocol(
  target: ProxyTarget,
  route: Route,
  forwarded: ForwardedRequest,
  timing = machineTiming,
): UpgradeOutcome {
  return {
    kind: "upgrade",
    connect({ socket, head, onStatus }) {
      const outgoing = outgoingOf(target, route, forwarded, true);
      limitDial(outgoing, target, timing);
      const refuse = (code: number, body: string, contentType = "text/plain"): void => {
        if (socket.writableEnded) return;
        onStatus(code);
        socket.end(
          `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ""}\r\ncontent-type: ${contentType}\r\n` +
            `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
        );
      };
      socket.on("error", () => socket.destroy());
      outgoing.on("error", (error) => refuse(503, unreachable(error).message));
      outgoing.once("response", (response) => {
        readShort(response, timing).then(
          (body) => refuse(response.statusCode ?? 502, body, response.headers["content-type"]),
          (error: unknown) => refuse(502, String(error)),
        );
      });
      outgoing.once("upgrade", (response, upstream, upstreamHead) => {
        onStatus(response.statusCode ?? 101);
        const lines = [`HTTP/1.1 ${response.statusCode ?? 101} ${response.statusMessage ?? ""}`];
        for (let index = 0; index + 1 < response.rawHeaders.length; index += 2) {
          lines.push(`${response.rawHeaders[index]}: ${response.rawHeaders[index + 1]}`);
        }
        socket.write(`${lines.join("\r\n")}\r\n\r\n`);
        if (upstreamHead.length > 0) socket.write(upstreamHead);
        if (head.length > 0) upstream.write(head);
        join(socket, upstream);
      });
      socket.once("close", () => outgoing.destroy());
      outgoing.end();
    },
  };
}

/** Maximum size of the body that explains why a protocol is not switched. */
const maxReasonBytes = 64 * 1024;

/** Reads a body up to {@link maxReasonBytes}, for at most 30 s; the rest is dropped. */
async function readShort(response: IncomingMessage, { clock }: Timing): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  let isLate = false;
  const expire = (): void => {
    isLate = true;
    response.destroy();
  };
  const timer = clock.setTimer(timeoutMs, expire, { background: true });
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= maxReasonBytes) break;
    }
  } catch (error) {
    if (!isLate) throw error;
  } finally {
    timer.cancel();
  }
  return Buffer.concat(chunks).subarray(0, maxReasonBytes).toString("utf8");
}

/** Copies in both directions. When one side closes, so does the other. */
function join(client: Duplex, upstream: Duplex): void {
  upstream.on("error", () => upstream.destroy());
  client.pipe(upstream);
  upstream.pipe(client);
  client.once("close", () => upstream.destroy());
  upstream.once("close", () => client.end());
}
