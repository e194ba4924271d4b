import type { RequestOptions } from "node:https";
import { statusError } from "@keelson/api-machinery";
import { listAt, objectsAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { readyEndpoints } from "../../registry/ready-endpoints.ts";
import { storageKey } from "../../storage/store.ts";
import type { Call } from "../call.ts";
import { badRequest, notFound } from "../errors.ts";
import { isProxyableAddress } from "./proxyable-address.ts";

/** Where a proxied request goes. */
export interface ProxyTarget {
  readonly scheme: "http" | "https";
  readonly host: string;
  readonly port: number;
  /** Path of a Unix socket to connect to instead of host and port. */
  readonly socketPath?: string;
  /** How the API server identifies itself and the sender. Default: not at all, and any certificate is accepted. */
  readonly identity?: {
    /** Replace those of the sender. */
    readonly headers: Readonly<Record<string, string | readonly string[]>>;
    /** Certificates of both sides. */
    readonly connection: RequestOptions;
  };
}

/** The parts of the name in a proxy path: `https:name:port`. */
interface ProxyName {
  readonly scheme: string;
  readonly name: string;
  readonly port: string;
}

/** Parses `name`, `name:port` or `scheme:name:port`; undefined if it is none of them. */
export function parseProxyName(text: string): ProxyName | undefined {
  const parts = text.split(":");
  if (parts.length > 3) return undefined;
  const [scheme, name, port] = parts.length === 3 ? parts : ["", parts[0], parts[1]];
  if (name === undefined || name === "" || !["", "http", "https"].includes(scheme ?? "")) return undefined;
  return { scheme: scheme ?? "", name, port: port ?? "" };
}

/** The address of a Pod, by default at the first port of its containers. */
export function podTarget(call: Call): ProxyTarget {
  const { name, scheme, port } = nameOf(call, "pod");
  const stored = call.store.get(storageKey({ group: "", plural: "pods" }, call.namespace, name));
  if (stored === undefined) throw notFound({ group: "", plural: "pods" }, name);
  const pod = stored.object;
  const host = textAt(pod, "status", "podIP");
  if (!isProxyableAddress(host)) throw badRequest("address not allowed");
  const [first] = listAt(pod, "spec", "containers").flatMap((container) => listAt(container, "ports"));
  const number = port === "" ? valueAt(first, "containerPort") : Number(port);
  return { ...schemeOf(scheme), host, port: portOf(number, scheme) };
}

/** The kubelet of a node, which serves on a Unix socket. */
export function nodeTarget(call: Call, socketPath: string): ProxyTarget {
  const { name } = nameOf(call, "node");
  const nodes = { group: "", plural: "nodes" };
  if (call.store.get(storageKey(nodes, "", name)) === undefined) throw notFound(nodes, name);
  return { scheme: "http", host: name, port: 10250, socketPath };
}

/** The address of one ready endpoint of a Service, chosen at random. */
export function serviceTarget(call: Call): ProxyTarget {
  const { name, scheme, port } = nameOf(call, "service");
  const stored = call.store.get(storageKey({ group: "", plural: "services" }, call.namespace, name));
  if (stored === undefined) throw notFound({ group: "", plural: "services" }, name);
  const portName = portNameOf(stored.object, name, port);
  const backends = readyEndpoints(call.store, { namespace: call.namespace, name }, portName);
  const chosen = backends[call.random.below(Math.max(1, backends.length))];
  if (chosen === undefined) {
    throw statusError("ServiceUnavailable", `no endpoints available for service ${JSON.stringify(call.info.name)}`);
  }
  if (!isProxyableAddress(chosen.host)) throw badRequest("address not allowed");
  return { ...schemeOf(scheme), ...chosen };
}

function nameOf({ info }: Call, kind: string): ProxyName {
  const parsed = parseProxyName(info.name);
  if (parsed === undefined) throw badRequest(`invalid ${kind} request ${JSON.stringify(info.name)}`);
  return parsed;
}

/** The name of the Service's port that a path gives by number or by name. */
function portNameOf(service: unknown, name: string, port: string): string {
  if (!/^\d+$/.test(port)) return port;
  const found = objectsAt(service, "spec", "ports").find((each) => each["port"] === Number(port));
  if (found === undefined) {
    throw statusError("ServiceUnavailable", `no service port ${Number(port)} found for service ${JSON.stringify(name)}`);
  }
  return textAt(found, "name");
}

function schemeOf(scheme: string): Pick<ProxyTarget, "scheme"> {
  return { scheme: scheme === "https" ? "https" : "http" };
}

function portOf(port: unknown, scheme: string): number {
  if (port === undefined) return scheme === "https" ? 443 : 80;
  if (typeof port !== "number" || !Number.isInteger(port) || port < 1 || port > 65535) {
    throw badRequest("the port must be a number between 1 and 65535");
  }
  return port;
}
