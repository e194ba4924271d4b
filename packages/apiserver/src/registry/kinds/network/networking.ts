import { jsonEquals } from "@keelson/api-machinery";
import type {
  IngressBackend,
  IngressClassObject,
  IngressObject,
  NetworkPolicyObject,
  NetworkPolicyPeer,
  NetworkPolicyPort,
} from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { isStrictlyWithin, parseAddressBlock } from "../../address-blocks.ts";
import * as check from "../../field-checks.ts";
import type { DraftObject, Received, ReceivedObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import { unenforcedWarning } from "../../unenforced.ts";
import { protocols } from "../pod/container-validation.ts";
import { selectorCell } from "../workload/workload.ts";

type Ingress = ReceivedObject<IngressObject>;
type NetworkPolicy = ReceivedObject<NetworkPolicyObject>;

/** networking.k8s.io/v1: Ingresses, IngressClasses and NetworkPolicies. */
export function networkingKinds(): readonly ServedResource[] {
  return [ingressClasses, ingresses, networkPolicies];
}

const ingresses = builtinResource<IngressObject>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "Ingress",
  plural: "ingresses",
  shortNames: ["ing"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Class", "The Ingress class."),
    column("Hosts", "The hosts of its rules."),
    column("Address", "The addresses of the load balancer."),
    column("Ports", "80, and 443 with TLS."),
    ageColumn,
  ],
  cells: (object, now) => {
    const hosts = (object.spec?.rules ?? []).map((rule) => rule.host ?? "").filter((host) => host !== "");
    const shown = hosts.length > 3 ? `${hosts.slice(0, 3).join(",")} + ${hosts.length - 3} more...` : hosts.join(",");
    return [
      object.spec?.ingressClassName || object.metadata.annotations?.["kubernetes.io/ingress.class"] || "<none>",
      shown === "" ? "*" : shown,
      (object.status?.loadBalancer?.ingress ?? []).map((address) => address.ip || address.hostname).join(","),
      (object.spec?.tls ?? []).length > 0 ? "80, 443" : "80",
      age(object.metadata.creationTimestamp, now),
    ];
  },
  strategy: {
    prepareForCreate: (object) => {
      object.status = { loadBalancer: {} };
    },
    validate: ingressCauses,
  },
});

function ingressCauses(object: Ingress): StatusCause[] {
  const spec = object.spec;
  const rules = spec?.rules ?? [];
  const causes: StatusCause[] = [];
  if (rules.length === 0 && spec?.defaultBackend === undefined) {
    causes.push(invalidCause("spec", spec ?? {}, "either `defaultBackend` or `rules` must be specified"));
  }
  if (spec?.defaultBackend !== undefined) {
    causes.push(...backendCauses(spec?.defaultBackend, "spec.defaultBackend"));
  }
  for (const [index, rule] of rules.entries()) {
    const host = rule.host ?? "";
    const at = `spec.rules[${index}]`;
    causes.push(...check.dnsSubdomain(`${at}.host`, host.replace(/^\*\./, "")));
    if (check.isIpAddress(host)) causes.push(invalidCause(`${at}.host`, host, "must be a DNS name, not an IP address"));
    if (Array.isArray(rule.http?.paths) && (rule.http?.paths ?? []).length === 0) {
      causes.push(requiredCause(`${at}.http.paths`));
    }
    for (const [number, path] of (rule.http?.paths ?? []).entries()) {
      const field = `${at}.http.paths[${number}]`;
      const type = path.pathType;
      causes.push(...check.oneOf(`${field}.pathType`, type, ["Exact", "ImplementationSpecific", "Prefix"]));
      const text = path.path ?? "";
      causes.push(...pathCauses(text, type, `${field}.path`));
      causes.push(...backendCauses(path.backend, `${field}.backend`));
    }
  }
  return [...causes, ...certificateCauses(spec)];
}

/** Sequences that an Ingress path must not contain, and those that it must not end with. */
const forbiddenParts = ["//", "/./", "/../", "%2f", "%2F"];
const forbiddenEnds = ["/..", "/."];

function pathCauses(path: string, type: unknown, field: string): StatusCause[] {
  const isPlain = type === "Exact" || type === "Prefix";
  if (!path.startsWith("/")) {
    return isPlain || path !== "" ? [invalidCause(field, path, "must be an absolute path")] : [];
  }
  if (!isPlain) return [];
  return [
    ...forbiddenParts
      .filter((part) => path.includes(part))
      .map((part) => invalidCause(field, path, `must not contain '${part}'`)),
    ...forbiddenEnds.filter((end) => path.endsWith(end)).map((end) => invalidCause(field, path, `cannot end with '${end}'`)),
  ];
}

/** Validates the class and certificates of an Ingress. */
function certificateCauses(spec: Ingress["spec"]): StatusCause[] {
  const causes = check.dnsSubdomain("spec.ingressClassName", spec?.ingressClassName);
  for (const [index, certificate] of (spec?.tls ?? []).entries()) {
    const at = `spec.tls[${index}]`;
    for (const [number, host] of (certificate.hosts ?? []).entries()) {
      causes.push(...check.dnsSubdomain(`${at}.hosts[${number}]`, String(host).replace(/^\*\./, "")));
    }
    causes.push(...check.dnsSubdomain(`${at}.secretName`, certificate.secretName));
  }
  return causes;
}

function backendCauses(backend: Received<IngressBackend> | undefined, path: string): StatusCause[] {
  if (backend === undefined) return [];
  const service = backend.service;
  const resource = backend.resource;
  if (service === undefined && resource === undefined) {
    return [requiredCause(path, "a default backend is required, or a `service` or a `resource`")];
  }
  if (service !== undefined && resource !== undefined) {
    return [invalidCause(path, "", "cannot set both resource and service backends")];
  }
  if (service === undefined) return [];
  const number = service.port?.number;
  const name = service.port?.name;
  const causes = check.dnsLabel(`${path}.service.name`, service.name);
  if (number === undefined && name === undefined)
    causes.push(requiredCause(`${path}.service`, "port name or number is required"));
  if (number !== undefined && name !== undefined) {
    causes.push(invalidCause(`${path}.service.port`, "", "cannot set both port name & port number"));
  }
  if (typeof name === "string" && number === undefined) {
    causes.push(...check.portNameFaults(name).map((fault) => invalidCause(`${path}.service.port.name`, name, fault)));
  }
  return [...causes, ...check.portNumber(`${path}.service.port.number`, number)];
}

const ingressClasses = builtinResource<IngressClassObject>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "IngressClass",
  plural: "ingressclasses",
  scope: "Cluster",
  columns: [
    column("Controller", "The controller of its Ingresses."),
    column("Parameters", "The parameters of the controller."),
    ageColumn,
  ],
  cells: (object, now) => {
    const parameters = object.spec?.parameters;
    const group = parameters?.apiGroup ?? "";
    const kind = parameters?.kind ?? "";
    return [
      object.spec?.controller ?? "",
      kind === "" ? "<none>" : `${kind}${group === "" ? "" : `.${group}`}/${parameters?.name ?? ""}`,
      age(object.metadata.creationTimestamp, now),
    ];
  },
  strategy: {
    validate: (object) => check.nonEmpty("spec.controller", object.spec?.controller),
    validateUpdate: (object, old) =>
      (object.spec?.controller ?? "") === (old.spec?.controller ?? "")
        ? []
        : [invalidCause("spec.controller", object.spec?.controller ?? "", "field is immutable")],
  },
});

const networkPolicies = builtinResource<NetworkPolicyObject>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "NetworkPolicy",
  plural: "networkpolicies",
  shortNames: ["netpol"],
  scope: "Namespaced",
  columns: [column("Pod-Selector", "The selector of its Pods."), ageColumn],
  cells: (object, now) => [selectorCell(object.spec?.podSelector), age(object.metadata.creationTimestamp, now)],
  strategy: {
    default: defaultPolicy,
    validate: policyCauses,
    warnings: () => [unenforcedWarning("networkpolicies.networking.k8s.io") ?? ""].filter((text) => text !== ""),
  },
});

function defaultPolicy(object: DraftObject<NetworkPolicyObject>): void {
  const spec = (object.spec ??= {});
  // An empty selector selects all Pods of the namespace.
  spec.podSelector ??= {};
  spec.policyTypes ??= (spec.egress ?? []).length > 0 ? ["Ingress", "Egress"] : ["Ingress"];
  for (const rule of [...(spec.ingress ?? []), ...(spec.egress ?? [])]) {
    for (const port of rule.ports ?? []) port.protocol ??= "TCP";
  }
}

function policyCauses(object: NetworkPolicy): StatusCause[] {
  const spec = object.spec;
  const causes = check.labelSelector("spec.podSelector", spec?.podSelector);
  const types = spec?.policyTypes ?? [];
  if (types.length > 2) causes.push(invalidCause("spec.policyTypes", types, "may not specify more than two policyTypes"));
  for (const [index, type] of types.entries()) {
    causes.push(...check.oneOf(`spec.policyTypes[${index}]`, type, ["Egress", "Ingress"]));
  }
  for (const [index, { from: peers, ports }] of (spec?.ingress ?? []).entries()) {
    causes.push(...ruleCauses({ peers, ports }, `spec.ingress[${index}]`, "from"));
  }
  for (const [index, { to: peers, ports }] of (spec?.egress ?? []).entries()) {
    causes.push(...ruleCauses({ peers, ports }, `spec.egress[${index}]`, "to"));
  }
  return causes;
}

/** Validates one rule; `field` is where its peers are. */
function ruleCauses(
  rule: Received<{ peers: NetworkPolicyPeer[] | undefined; ports: NetworkPolicyPort[] | undefined }>,
  path: string,
  field: "from" | "to",
): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [index, port] of (rule.ports ?? []).entries()) {
    const at = `${path}.ports[${index}]`;
    causes.push(...check.oneOf(`${at}.protocol`, port.protocol, protocols));
    causes.push(...check.portReference(`${at}.port`, port.port));
    causes.push(...lastPortCauses(port, at));
  }
  for (const [index, peer] of (rule.peers ?? []).entries()) causes.push(...peerCauses(peer, `${path}.${field}[${index}]`));
  return causes;
}

/** Validates a port range: it starts at a number and does not end before it. */
function lastPortCauses(port: Received<NetworkPolicyPort>, path: string): StatusCause[] {
  const last = port.endPort;
  if (typeof last !== "number") return [];
  const first = port.port;
  if (first === undefined) return [requiredCause(`${path}.port`, "must be specified when `endPort` is specified")];
  if (typeof first !== "number") {
    return [invalidCause(`${path}.endPort`, last, "may not be specified when `port` is non-numeric")];
  }
  const causes = last < first ? [invalidCause(`${path}.endPort`, last, "must be greater than or equal to `port`")] : [];
  return [...causes, ...check.portNumber(`${path}.endPort`, last)];
}

/** Validates an IPBlock: a block, and exceptions within it. */
function blockCauses(block: NonNullable<Received<NetworkPolicyPeer>["ipBlock"]>, path: string): StatusCause[] {
  const text = block.cidr ?? "";
  if (text === "") return [requiredCause(`${path}.cidr`)];
  const rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
  const outer = parseAddressBlock(text);
  if (outer === undefined) return [invalidCause(`${path}.cidr`, text, rule)];
  return (block.except ?? []).flatMap((except, index) => {
    const field = `${path}.except[${index}]`;
    const inner = typeof except === "string" ? parseAddressBlock(except) : undefined;
    if (inner === undefined) return [invalidCause(field, except, rule)];
    return isStrictlyWithin(inner, outer) ? [] : [invalidCause(field, except, `must be a strict subset of \`cidr\`: ${text}`)];
  });
}

function peerCauses(peer: Received<NetworkPolicyPeer>, path: string): StatusCause[] {
  const pods = peer.podSelector;
  const namespaces = peer.namespaceSelector;
  const block = peer.ipBlock;
  if (pods === undefined && namespaces === undefined && block === undefined) {
    return [requiredCause(path, "must specify a peer")];
  }
  const isBlockAlone = block === undefined || jsonEquals([pods, namespaces], [undefined, undefined]);
  return [
    ...check.labelSelector(`${path}.podSelector`, pods),
    ...check.labelSelector(`${path}.namespaceSelector`, namespaces),
    ...(block === undefined ? [] : blockCauses(block, `${path}.ipBlock`)),
    ...(isBlockAlone ? [] : [forbiddenCause(path, "may not specify both ipBlock and another peer")]),
  ];
}
