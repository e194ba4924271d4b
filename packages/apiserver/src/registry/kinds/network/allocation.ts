import { jsonEquals } from "@keelson/api-machinery";
import type { ServiceObject } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause } from "@keelson/api-machinery/validation";
import { isIpAddress } from "../../field-checks.ts";
import { setField } from "../../object-fields.ts";
import type { DraftObject, ReceivedObject } from "../../received.ts";
import type { ServiceAllocator } from "./service-allocator.ts";
import type { Causes } from "../../causes.ts";

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

/** Allocates missing cluster IPs and node ports of a Service. */
export function allocate(service: DraftObject<ServiceObject>, allocator: ServiceAllocator): void {
  const spec = service.spec;
  const { uid = "" } = service.metadata;
  if (spec === undefined) return;
  if (hasClusterAddress(spec)) {
    const given = spec.clusterIP || spec.clusterIPs?.[0];
    const address = given || allocator.allocateAddress(uid);
    if (address !== undefined) {
      spec.clusterIP = address;
      if ((spec.clusterIPs ?? []).length === 0) spec.clusterIPs = [address];
      // Endpoints of a headless Service without a selector may be of either family.
      const isOpen = address === "None" && Object.keys(spec.selector ?? {}).length === 0;
      spec.ipFamilyPolicy ??= isOpen ? "RequireDualStack" : "SingleStack";
      const isDual = isOpen && spec.ipFamilyPolicy !== "SingleStack";
      if (!spec.ipFamilies?.length) {
        spec.ipFamilies = isDual ? ["IPv4", "IPv6"] : [address.includes(":") ? "IPv6" : "IPv4"];
      }
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

/** Keeps the old Service's allocations that the new one does not name, and drops those that its new type does not have. */
export function keepAllocated(service: DraftObject<ServiceObject>, old: Service): void {
  const spec = service.spec;
  if (spec === undefined) return;
  const oldSpec = old.spec;
  if (hasClusterAddress(spec) && hasClusterAddress(oldSpec)) {
    const isChangedAlone =
      (spec.clusterIP ?? "") !== (oldSpec?.clusterIP ?? "") && jsonEquals(spec.clusterIPs, oldSpec?.clusterIPs);
    if (isChangedAlone) setField(spec, "clusterIPs", (spec.clusterIP ?? "") === "" ? undefined : [spec.clusterIP]);
    for (const field of ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] as const) {
      const kept = oldSpec?.[field];
      if (!spec[field]?.length && kept !== undefined) setField(spec, field, structuredClone(kept));
    }
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

/** Validates the form and availability of requested addresses and node ports. */
export function* allocationCauses(service: Service, allocator: ServiceAllocator): Causes {
  const { uid = "" } = service.metadata;
  const spec = service.spec;

  if (spec?.type === "ExternalName") {
    const detail = "may not be set for ExternalName services";
    if ((spec?.clusterIPs ?? []).length > 0) yield forbiddenCause("spec.clusterIPs", detail);
    return;
  }
  for (const [index, address] of (spec?.clusterIPs ?? []).entries()) {
    yield;
    if (typeof address !== "string" || address === "None") continue;
    const field = `spec.clusterIPs[${index}]`;
    if (!isIpAddress(address)) {
      yield invalidCause(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    } else if (!allocator.isAddressInRange(address)) {
      const detail = `failed to allocate IP ${address}: the provided network does not match the current range ${allocator.addressRange}`;
      yield invalidCause(field, address, detail);
    } else if (!allocator.claimAddress(uid, address)) {
      yield invalidCause(field, address, `failed to allocate IP ${address}: provided IP is already allocated`);
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
