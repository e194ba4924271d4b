import { jsonEquals } from "@keelson/api-machinery";
import type { ServiceObject } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause } from "@keelson/api-machinery/validation";
import type { DraftObject, ReceivedObject } from "../../received.ts";
import type { ServiceAllocator } from "./service-allocator.ts";
import type { Causes } from "../../causes.ts";
import { addressCauses, chooseFamilies } from "./service-families.ts";

type Service = ReceivedObject<ServiceObject>;
type Spec = Service["spec"];
type DraftSpec = NonNullable<DraftObject<ServiceObject>["spec"]>;

/** Whether Services of this type have a cluster IP. */
export function hasClusterAddress(spec: Spec): boolean {
  return ["ClusterIP", "NodePort", "LoadBalancer"].includes(spec?.type ?? "");
}

/** Whether Services of this type have node ports. */
function hasNodePorts(spec: Spec): boolean {
  const type = spec?.type ?? "";
  return type === "NodePort" || (type === "LoadBalancer" && spec?.allocateLoadBalancerNodePorts !== false);
}

/** Whether Services of this type are reachable from outside the cluster. */
export function isReachable(spec: Spec): boolean {
  const type = spec?.type ?? "";
  return type === "NodePort" || type === "LoadBalancer" || (type === "ClusterIP" && (spec?.externalIPs ?? []).length > 0);
}

/**
 * Allocates missing cluster IPs and node ports of a Service. `old` is the Service that an update replaces. What cannot be provided is left
 * as it was requested, for validation.
 */
export function allocate(service: DraftObject<ServiceObject>, old: Service | undefined, allocator: ServiceAllocator): void {
  const spec = service.spec;
  const { uid = "" } = service.metadata;
  if (spec === undefined) return;
  // An invalid policy is left for validation.
  const hasPolicy = spec.internalTrafficPolicy === "Cluster" || spec.internalTrafficPolicy === "Local";
  if (spec.type === "ExternalName" && hasPolicy) delete spec.internalTrafficPolicy;
  if (hasClusterAddress(spec) && isFaultless(addressCauses(spec)) && chooseFamilies(spec, old?.spec).length === 0) {
    const address = spec.clusterIP || allocator.allocateAddress(uid);
    if (address !== undefined) {
      spec.clusterIP = address;
      if ((spec.clusterIPs ?? []).length === 0) spec.clusterIPs = [address];
    }
  }
  if (!hasNodePorts(spec)) return;
  const byPort = new Map<unknown, number>();
  for (const port of spec.ports ?? []) {
    if (port.nodePort) continue;
    // As in Kubernetes, one number for the same port across protocols.
    const number = byPort.get(port.port) ?? allocator.allocatePort(uid);
    if (number === undefined) continue;
    byPort.set(port.port, number);
    port.nodePort = number;
  }
}

const isFaultless = (causes: Causes): boolean => [...causes].every((cause) => cause === undefined);

/** Keeps the old Service's allocations that the new one does not name, and drops those that its new type does not have. */
export function keepAllocated(service: DraftObject<ServiceObject>, old: Service): void {
  const spec = service.spec;
  if (spec === undefined) return;
  const oldSpec = old.spec;
  if (hasClusterAddress(spec) && hasClusterAddress(oldSpec)) {
    if ((spec.clusterIP ?? "") === "" && oldSpec?.clusterIP !== undefined) spec.clusterIP = oldSpec.clusterIP;
    if ((spec.clusterIPs ?? []).length === 0 && oldSpec?.clusterIPs !== undefined) spec.clusterIPs = [...oldSpec.clusterIPs];
  }
  if (!hasClusterAddress(spec) && hasClusterAddress(oldSpec)) {
    for (const field of ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] as const) {
      if (jsonEquals(spec[field], oldSpec?.[field]) || spec[field] === undefined) delete spec[field];
    }
  }
  const isBalanced = (of: Spec): boolean => of?.type === "LoadBalancer";
  for (const [field, needs] of [
    ["externalTrafficPolicy", isReachable],
    ["allocateLoadBalancerNodePorts", isBalanced],
    ["healthCheckNodePort", isBalanced],
    ["loadBalancerClass", isBalanced],
  ] as const) {
    if (needs(oldSpec) && !needs(spec) && jsonEquals(spec[field], oldSpec?.[field])) delete spec[field];
  }
  if (hasNodePorts(spec)) keepNodePorts(spec, oldSpec);
  else if (hasNodePorts(oldSpec)) dropNodePorts(spec, oldSpec);
}

function keepNodePorts(spec: DraftSpec, oldSpec: Spec): void {
  const before = new Map((oldSpec?.ports ?? []).map((port) => [`${port.protocol ?? ""}/${String(port.port)}`, port.nodePort]));
  const named = new Set((spec.ports ?? []).map((port) => port.nodePort));
  for (const port of spec.ports ?? []) {
    if (port.nodePort) continue;
    const kept = before.get(`${port.protocol ?? ""}/${String(port.port)}`);
    if (typeof kept === "number" && !named.has(kept)) port.nodePort = kept;
  }
}

function dropNodePorts(spec: DraftSpec, oldSpec: Spec): void {
  const before = new Set((oldSpec?.ports ?? []).map((port) => port.nodePort));
  for (const port of spec.ports ?? []) if (before.has(port.nodePort)) delete port.nodePort;
  if (!["NodePort", "LoadBalancer"].includes(spec.type ?? "") && (spec.externalIPs ?? []).length === 0) {
    delete spec.externalTrafficPolicy;
  }
}

/**
 * Validates the availability of requested addresses and node ports. An update does not allocate addresses, unless the Service had none:
 * they cannot change.
 */
export function* allocationCauses(service: Service, old: Spec, allocator: ServiceAllocator): Causes {
  const { uid = "" } = service.metadata;
  const spec = service.spec;

  if (spec?.type === "ExternalName") return;
  const clusterIPs = hasClusterAddress(old) ? [] : (spec?.clusterIPs ?? []);
  for (const address of clusterIPs) {
    yield;
    if (typeof address !== "string" || address === "None") continue;
    const field = "spec.clusterIPs";
    if (!allocator.isAddressInRange(address)) {
      const why = `the provided IP (${address}) is not in the valid range. The range of valid IPs is ${allocator.addressRange}`;
      yield invalidCause(field, clusterIPs, `failed to allocate IP ${address}: ${why}`);
    } else if (!allocator.claimAddress(uid, address)) {
      yield invalidCause(field, clusterIPs, `failed to allocate IP ${address}: provided IP is already allocated`);
    }
  }
  for (const [index, port] of (spec?.ports ?? []).entries()) {
    yield;
    const number = port.nodePort;
    if (typeof number !== "number" || number === 0) continue;
    const field = `spec.ports[${index}].nodePort`;
    if (spec?.type === "ClusterIP") {
      yield forbiddenCause(field, "may not be used when `type` is 'ClusterIP'");
    } else if (!allocator.isPortInRange(number)) {
      const detail = `provided port is not in the valid range. The range of valid ports is ${allocator.portRange}`;
      yield invalidCause(field, number, detail);
    } else if (!allocator.claimPort(uid, port.protocol ?? "", number)) {
      yield invalidCause(field, number, "provided port is already allocated");
    }
  }
}
