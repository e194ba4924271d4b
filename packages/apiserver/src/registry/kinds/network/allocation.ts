import { type DeepReadonly, jsonEquals, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { isIpAddress } from "../../field-checks.ts";
import { listAt, mapAt, objectAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServiceAllocator } from "./service-allocator.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Whether Services of this type have a cluster IP. */
export function hasClusterAddress(spec: unknown): boolean {
  return ["ClusterIP", "NodePort", "LoadBalancer"].includes(textAt(spec, "type"));
}

/** Whether Services of this type have node ports. */
function hasNodePorts(spec: unknown): boolean {
  const type = textAt(spec, "type");
  return type === "NodePort" || (type === "LoadBalancer" && valueAt(spec, "allocateLoadBalancerNodePorts") !== false);
}

/** Whether Services of this type are reachable from outside the cluster. */
export function isReachable(spec: unknown): boolean {
  const type = textAt(spec, "type");
  return type === "NodePort" || type === "LoadBalancer" || (type === "ClusterIP" && listAt(spec, "externalIPs").length > 0);
}

/** Allocates missing cluster IPs and node ports of a Service. */
export function allocate(service: KubernetesObject, allocator: ServiceAllocator): void {
  const spec = objectAt(service, "spec");
  const { uid = "" } = service.metadata;
  if (spec === undefined) return;
  if (hasClusterAddress(spec)) {
    const given = textAt(spec, "clusterIP") || textAt(spec, "clusterIPs", 0);
    const address = given || allocator.allocateAddress(uid);
    if (address !== undefined) {
      spec["clusterIP"] = address;
      if (listAt(spec, "clusterIPs").length === 0) spec["clusterIPs"] = [address];
      // Endpoints of a headless Service without a selector may be of either family.
      const isOpen = address === "None" && Object.keys(mapAt(spec, "selector")).length === 0;
      spec["ipFamilyPolicy"] ??= isOpen ? "RequireDualStack" : "SingleStack";
      const isDual = isOpen && spec["ipFamilyPolicy"] !== "SingleStack";
      spec["ipFamilies"] ??= isDual ? ["IPv4", "IPv6"] : [address.includes(":") ? "IPv6" : "IPv4"];
    }
  }
  if (!hasNodePorts(spec)) return;
  const byPort = new Map<unknown, number>();
  for (const port of objectsAt(spec, "ports")) {
    if (port["nodePort"]) continue;
    // As in Kubernetes, one number for the same port across protocols.
    const number = byPort.get(port["port"]) ?? allocator.allocatePort(uid);
    if (number === undefined) continue;
    byPort.set(port["port"], number);
    port["nodePort"] = number;
  }
}

/** Keeps the old Service's allocations that the new one does not name, and drops those that its new type does not have. */
export function keepAllocated(service: KubernetesObject, old: Read): void {
  const spec = objectAt(service, "spec");
  if (spec === undefined) return;
  const oldSpec = valueAt(old, "spec");
  if (hasClusterAddress(spec) && hasClusterAddress(oldSpec)) {
    const isChangedAlone =
      textAt(spec, "clusterIP") !== textAt(oldSpec, "clusterIP") &&
      jsonEquals(valueAt(spec, "clusterIPs"), valueAt(oldSpec, "clusterIPs"));
    if (isChangedAlone) setField(spec, "clusterIPs", textAt(spec, "clusterIP") === "" ? undefined : [spec["clusterIP"]]);
    for (const field of ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]) {
      const isMissing = spec[field] === undefined || spec[field] === "";
      const kept = valueAt(oldSpec, field);
      if (isMissing && kept !== undefined) setField(spec, field, structuredClone(kept));
    }
  }
  if (!hasClusterAddress(spec) && hasClusterAddress(oldSpec)) {
    for (const field of ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]) {
      if (jsonEquals(spec[field], valueAt(oldSpec, field)) || spec[field] === undefined) delete spec[field];
    }
  }
  const isBalanced = (of: unknown): boolean => textAt(of, "type") === "LoadBalancer";
  for (const [field, needs] of [
    ["externalTrafficPolicy", isReachable],
    ["allocateLoadBalancerNodePorts", isBalanced],
    ["healthCheckNodePort", isBalanced],
    ["loadBalancerClass", isBalanced],
  ] as const) {
    if (needs(oldSpec) && !needs(spec) && jsonEquals(spec[field], valueAt(oldSpec, field))) delete spec[field];
  }
  if (hasNodePorts(spec)) keepNodePorts(spec, oldSpec);
  else if (hasNodePorts(oldSpec)) dropNodePorts(spec, oldSpec);
}

function keepNodePorts(spec: JsonObject, oldSpec: unknown): void {
  const before = new Map(
    listAt(oldSpec, "ports").map((port) => [
      `${textAt(port, "protocol")}/${String(valueAt(port, "port"))}`,
      valueAt(port, "nodePort"),
    ]),
  );
  const named = new Set(objectsAt(spec, "ports").map((port) => port["nodePort"]));
  for (const port of objectsAt(spec, "ports")) {
    if (port["nodePort"]) continue;
    const kept = before.get(`${textAt(port, "protocol")}/${String(port["port"])}`);
    if (typeof kept === "number" && !named.has(kept)) port["nodePort"] = kept;
  }
}

function dropNodePorts(spec: JsonObject, oldSpec: unknown): void {
  const before = new Set(listAt(oldSpec, "ports").map((port) => valueAt(port, "nodePort")));
  for (const port of objectsAt(spec, "ports")) if (before.has(port["nodePort"])) delete port["nodePort"];
  if (!["NodePort", "LoadBalancer"].includes(textAt(spec, "type")) && listAt(spec, "externalIPs").length === 0) {
    delete spec["externalTrafficPolicy"];
  }
}

/** Validates the form and availability of requested addresses and node ports. */
export function allocationCauses(service: Read, allocator: ServiceAllocator): StatusCause[] {
  const { uid = "" } = service.metadata;
  const spec = valueAt(service, "spec");
  const causes: StatusCause[] = [];
  if (textAt(spec, "type") === "ExternalName") {
    const detail = "may not be set for ExternalName services";
    if (listAt(spec, "clusterIPs").length > 0) causes.push(forbiddenCause("spec.clusterIPs", detail));
    return causes;
  }
  for (const [index, address] of listAt(spec, "clusterIPs").entries()) {
    if (typeof address !== "string" || address === "None") continue;
    const field = `spec.clusterIPs[${index}]`;
    if (!isIpAddress(address)) {
      causes.push(invalidCause(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
    } else if (!allocator.isAddressInRange(address)) {
      const detail = `failed to allocate IP ${address}: the provided network does not match the current range ${allocator.addressRange}`;
      causes.push(invalidCause(field, address, detail));
    } else if (!allocator.claimAddress(uid, address)) {
      causes.push(invalidCause(field, address, `failed to allocate IP ${address}: provided IP is already allocated`));
    }
  }
  for (const [index, port] of listAt(spec, "ports").entries()) {
    const number = valueAt(port, "nodePort");
    if (typeof number !== "number" || number === 0) continue;
    const field = `spec.ports[${index}].nodePort`;
    if (textAt(spec, "type") === "ClusterIP") {
      causes.push(forbiddenCause(field, "may not be used when `type` is 'ClusterIP'"));
    } else if (!allocator.isPortInRange(number)) {
      const detail = `provided port is not in the valid range. The range of valid ports is ${allocator.portRange}`;
      causes.push(invalidCause(field, number, detail));
    } else if (!allocator.claimPort(uid, textAt(port, "protocol"), number)) {
      causes.push(invalidCause(field, number, "provided port is already allocated"));
    }
  }
  return causes;
}
