import { Readable } from "node:stream";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import { listAt, objectsAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { storageKey } from "../../storage/store.ts";
import { type Call, keyOf } from "../call.ts";
import { badRequest, notFound } from "../errors.ts";
import type { Outcome } from "../outcome.ts";
import type { SubresourceHandler } from "../subresources/pod-subresources.ts";
import type { ProxyTarget } from "./proxy-target.ts";
import { exchange, proxyTo, type Route, switchProtocol } from "./reverse-proxy.ts";

/** Returns the client certificate with which this server identifies itself to kubelets. */
export type KubeletCredentials = () => KeyPair;

/** The kubelet's path segment and the query parameters that it names differently, by subresource of Pods. */
const routes: Readonly<Record<string, { readonly action: string; readonly renamed?: Readonly<Record<string, string>> }>> = {
  log: { action: "containerLogs" },
  exec: { action: "exec", renamed: { stdin: "input", stdout: "output", stderr: "error" } },
  attach: { action: "attach", renamed: { stdin: "input", stdout: "output", stderr: "error" } },
  portforward: { action: "portForward" },
};

/** Addresses of a Node, preferred first. Host names resolve only where a DNS server knows them, so they come last. */
const addressTypes = ["InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Hostname"];

/**
 * Passes requests for Pods and Nodes on to the kubelet of their node if the Node reports a port of its HTTPS API; `handlers` serve the
 * others. The certificate of a kubelet is not verified, as in kube-apiserver without `--kubelet-certificate-authority`.
 */
export function withKubelets(
  handlers: Readonly<Record<string, SubresourceHandler>>,
  credentials: KubeletCredentials,
): Readonly<Record<string, SubresourceHandler>> {
  const forward = (key: string, handler: SubresourceHandler): SubresourceHandler => {
    const subresource = /^\/pods\/(\w+)$/.exec(key)?.[1] ?? "";
    if (key === "/nodes/proxy") {
      return async (call) => {
        const target = kubeletOf(call, call.info.name, credentials);
        return target === undefined ? handler(call) : proxyTo(call, () => target);
      };
    }
    if (!Object.hasOwn(routes, subresource)) return handler;
    return async (call) => {
      const target = kubeletOf(call, nodeOf(call), credentials);
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

function kubeletOf(call: Call, nodeName: string, credentials: KubeletCredentials): ProxyTarget | undefined {
  const node = call.store.get(storageKey({ group: "", plural: "nodes" }, "", nodeName))?.object;
  const port = valueAt(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port");
  if (typeof port !== "number" || port === 0) return undefined;
  const addresses = objectsAt(node, "status", "addresses");
  const [host] = addressTypes.flatMap((type) =>
    addresses.filter((each) => each["type"] === type).map((each) => textAt(each, "address")),
  );
  if (host === undefined) throw badRequest("no preferred addresses found; known addresses: []");
  const { certificate, key } = credentials();
  return { scheme: "https", host, port, identity: { headers: {}, connection: { cert: certificate, key } } };
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
  return exchange(target, routeOf(query), { method, url: "", headers: {}, isUpgrade: false, body }, signal);
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
