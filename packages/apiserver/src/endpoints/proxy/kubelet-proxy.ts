import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { Readable } from "node:stream";
import { parseJsonObject, type Status, statusError, type StatusReason } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import { listAt, objectsAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { storageKey } from "../../storage/store.ts";
import { type Call, keyOf } from "../call.ts";
import { badRequest, notFound } from "../errors.ts";
import type { Outcome, PipelineRequest, RawOutcome } from "../outcome.ts";
import type { SubresourceHandler } from "../subresources/pod-subresources.ts";
import { parseProxyName, type ProxyTarget } from "./proxy-target.ts";
import { isProxyableAddress } from "./proxyable-address.ts";
import { exchange, proxyTo, type Route, switchProtocol } from "./reverse-proxy.ts";

/** How {@link withKubelets} reaches kubelets. */
export interface KubeletAccess {
  /** Returns the client certificate with which this server identifies itself to kubelets. */
  readonly credentials: () => KeyPair;
  /** Headers that tell a kubelet about the sender of a request. */
  readonly headersFor: (user: PipelineRequest["user"]) => Readonly<Record<string, string>>;
  /** The port of this server. A Node must not lead requests back to it. */
  readonly ownPort: () => number;
}

/** The kubelet's path segment and the query parameters that it names differently, by subresource of Pods. */
const routes: Readonly<Record<string, { readonly action: string; readonly renamed?: Readonly<Record<string, string>> }>> = {
  log: { action: "containerLogs" },
  exec: { action: "exec", renamed: { stdin: "input", stdout: "output", stderr: "error" } },
  attach: { action: "attach", renamed: { stdin: "input", stdout: "output", stderr: "error" } },
  portforward: { action: "portForward" },
};

/** Addresses of a Node, preferred first. Host names are not used, since they may resolve to any address. */
const addressTypes = ["InternalIP", "ExternalIP"];

/**
 * Passes requests for Pods and Nodes on to the kubelet of their node if the Node reports a port of its HTTPS API; `handlers` serve the
 * others. The certificate of a kubelet is not verified, as in kube-apiserver without `--kubelet-certificate-authority`.
 */
export function withKubelets(
  handlers: Readonly<Record<string, SubresourceHandler>>,
  access: KubeletAccess,
): Readonly<Record<string, SubresourceHandler>> {
  const forward = (key: string, handler: SubresourceHandler): SubresourceHandler => {
    const subresource = /^\/pods\/(\w+)$/.exec(key)?.[1] ?? "";
    if (key === "/nodes/proxy") {
      return async (call) => {
        const target = kubeletOf(call, parseProxyName(call.info.name)?.name ?? "", access);
        return target === undefined ? handler(call) : proxyTo(call, () => target);
      };
    }
    if (!Object.hasOwn(routes, subresource)) return handler;
    return async (call) => {
      const target = kubeletOf(call, nodeOf(call), access);
      return target === undefined ? handler(call) : forwardPodRequest(call, target, subresource);
    };
  };
  return Object.fromEntries(Object.entries(handlers).map(([key, handler]) => [key, forward(key, handler)]));
}

function nodeOf(call: Call): string {
  const stored = call.store.get(keyOf(call));
  if (stored === undefined) throw notFound(call.resource, call.info.name);
  return textAt(stored.object, "spec", "nodeName");
}

/**
 * The kubelet of a Node that reports a port. A Node's status is written by its machine, which must not use it to send this server's
 * requests elsewhere on this machine or its link.
 */
function kubeletOf(call: Call, nodeName: string, access: KubeletAccess): ProxyTarget | undefined {
  const node = call.store.get(storageKey({ group: "", plural: "nodes" }, "", nodeName))?.object;
  const port = valueAt(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port");
  if (typeof port !== "number" || port === 0) return undefined;
  const addresses = objectsAt(node, "status", "addresses");
  const [host] = addressTypes.flatMap((type) =>
    addresses.filter((each) => each["type"] === type).map((each) => textAt(each, "address")),
  );
  if (host === undefined) throw badRequest("no preferred addresses found; known addresses: []");
  const isOwn = port === access.ownPort() && isIP(host) !== 0 && isLocal(host);
  if (port < 1 || port > 65_535 || isOwn || !(isProxyableAddress(host) || isLoopback(host))) {
    throw badRequest(`node ${nodeName} reports an address or a port of its kubelet that is not allowed`);
  }
  const { certificate, key } = access.credentials();
  const headers = access.headersFor(call.request.user);
  return { scheme: "https", host, port, identity: { headers, connection: { cert: certificate, key } } };
}

const isLoopback = (host: string): boolean => host === "::1" || (isIP(host) === 4 && host.startsWith("127."));

/** Whether an address is one of this machine, in any spelling. */
function isLocal(host: string): boolean {
  const own = new BlockList();
  for (const { address, family } of Object.values(networkInterfaces()).flatMap((each) => each ?? [])) {
    own.addAddress(address, family === "IPv6" ? "ipv6" : "ipv4");
  }
  return isLoopback(host) || own.check(host, isIP(host) === 6 ? "ipv6" : "ipv4");
}

/** Repeats a request for a Pod to its kubelet. The container is checked before a protocol is switched. */
async function forwardPodRequest(call: Call, target: ProxyTarget, subresource: string): Promise<Outcome> {
  const { headers = {}, method, signal } = call.request;
  const container = subresource === "portforward" ? undefined : containerOf(call, call.query["container"]);
  const routeOf = (query: URLSearchParams): Route => kubeletRoute(call, subresource, container, query);
  const body = (): Readable => Readable.from([]);
  if (headers["upgrade"] !== undefined) {
    return {
      kind: "upgrade",
      connect(connection) {
        const route = routeOf(new URL(connection.url, "https://localhost").searchParams);
        const forwarded = { method, url: connection.url, headers: connection.headers, isUpgrade: true, body };
        switchProtocol(target, route, forwarded).connect(connection);
      },
    };
  }
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query)) if (value !== undefined) query.set(name, value);
  const forwarded = { method, url: "", headers: {}, isUpgrade: false, body };
  const response = await exchange(target, routeOf(query), forwarded, signal);
  return response.status === 200 ? withoutHeaders(response) : refusal(response);
}

/** A log is the kubelet's text, but not its cookies or other headers, which clients would take for this server's. */
function withoutHeaders({ status, headers, body }: RawOutcome): RawOutcome {
  return { kind: "raw", status, headers: { "content-type": headers["content-type"] ?? "text/plain" }, body };
}

async function refusal({ status, body }: RawOutcome): Promise<Outcome> {
  const text = await shortText(body);
  if (status >= 300 && status < 400) {
    throw statusError("ServiceUnavailable", "the kubelet attempted to redirect this request, which is not permitted");
  }
  const parsed = parseJsonObject(text);
  if (parsed?.["kind"] === "Status") return { kind: "status", status: { ...(parsed as unknown as Status), code: status } };
  const reason = reasons[status] ?? "InternalError";
  return {
    kind: "status",
    status: statusError(reason, `the kubelet responded with HTTP status ${status}: ${text.trim()}`).status,
  };
}

const reasons: Readonly<Record<number, StatusReason>> = { 400: "BadRequest", 403: "Forbidden", 404: "NotFound" };

/** Maximum length of a kubelet's explanation. */
const maxReasonBytes = 64 * 1024;

async function shortText(body: RawOutcome["body"]): Promise<string> {
  if (typeof body === "string") return body.slice(0, maxReasonBytes);
  if (body instanceof Uint8Array) return Buffer.from(body).toString("utf8").slice(0, maxReasonBytes);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= maxReasonBytes) break;
  }
  return Buffer.concat(chunks).toString("utf8").slice(0, maxReasonBytes);
}

function kubeletRoute(call: Call, subresource: string, container: string | undefined, sent: URLSearchParams): Route {
  const { action = "", renamed = {} } = routes[subresource] ?? {};
  const { namespace, name } = call.info;
  const query = new URLSearchParams();
  for (const [parameter, value] of sent) {
    if (parameter !== "container") query.append(renamed[parameter] ?? parameter, value);
  }
  const path = ["", action, namespace, name, ...(container === undefined ? [] : [container])].map(encodeURIComponent).join("/");
  return { prefix: "", path, query: query.size === 0 ? "" : `?${query.toString()}` };
}

/** The requested container, or the only one. */
function containerOf(call: Call, requested: string | undefined): string {
  const pod = call.store.get(keyOf(call))?.object;
  const namesOf = (field: string): string[] => listAt(pod, "spec", field).map((container) => textAt(container, "name"));
  const mains = namesOf("containers");
  const { name } = call.info;
  if (requested !== undefined && requested !== "") {
    const all = [...mains, ...namesOf("initContainers"), ...namesOf("ephemeralContainers")];
    if (all.includes(requested)) return requested;
    throw badRequest(`container ${requested} is not valid for pod ${name}`);
  }
  const [only] = mains;
  if (only !== undefined && mains.length === 1) return only;
  throw badRequest(`a container name must be specified for pod ${name}, choose one of: [${mains.join(" ")}]`);
}
