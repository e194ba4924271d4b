import { controllerReference, jsonEquals } from "@keelson/api-machinery";
import { EndpointSlice, type EndpointSliceObject, type ServiceObject } from "@keelson/api-machinery/kinds";
import { isPodReady, isPodTerminal, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import { stableJson } from "../workload/template-hash.ts";
import type { Cached, Write } from "../workload/write.ts";
import { type EndpointPort, endpointPorts } from "./endpoint-ports.ts";

/** Label of a slice: the name of its Service. */
export const serviceNameLabel = "kubernetes.io/service-name";
/** Label of a slice: its writer. */
export const managedByLabel = "endpointslice.kubernetes.io/managed-by";
/** The value of {@link managedByLabel} on slices of this controller. */
export const sliceManager = "endpointslice-controller.k8s.io";
/** Label of the slices of a headless Service. */
export const headlessLabel = "service.kubernetes.io/headless";

const maxEndpoints = 100;

/** A Service, the Pods that it selects, and its slices. */
export interface ObservedService {
  readonly service: Cached<ServiceObject>;
  readonly pods: readonly CachedPod[];
  readonly slices: readonly Cached<EndpointSliceObject>[];
}

type Endpoint = Cached<EndpointSliceObject>["endpoints"][number];
type AddressType = EndpointSliceObject["addressType"];

interface Group {
  readonly addressType: AddressType;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: Map<string, Endpoint>;
}

/** Whether a selected Pod is an endpoint: it has an address and has not terminated. */
export function hasEndpoint(pod: CachedPod): boolean {
  return (pod.status?.podIP ?? "") !== "" && !isPodTerminal(pod);
}

/**
 * Reconciles a Service's slices with its Pods. Endpoints stay in their slice, so that a change of one Pod changes one slice. A
 * Service without Pods has one empty slice.
 */
export function decideEndpointSlices({ service, pods, slices }: ObservedService): readonly Write[] {
  const groups = groupsOf(service, pods);
  const labels = labelsOf(service);
  const writes: Write[] = [];
  const left = new Set(slices.filter(({ metadata }) => metadata.deletionTimestamp === undefined));
  for (const group of groups.values()) {
    const own = [...left].filter((slice) => slice.addressType === group.addressType && hasPorts(slice, group.ports));
    for (const slice of own) left.delete(slice);
    writes.push(...fill(service, labels, group, own));
  }
  for (const object of left) writes.push({ kind: "delete", type: EndpointSlice, object });
  return writes;
}

function groupsOf(service: Cached<ServiceObject>, pods: readonly CachedPod[]): ReadonlyMap<string, Group> {
  const groups = new Map<string, Group>();
  for (const pod of pods.filter(hasEndpoint)) {
    const ports = endpointPorts(service, pod);
    const addressType = pod.status?.podIP?.includes(":") ? "IPv6" : "IPv4";
    const key = `${addressType} ${stableJson(ports)}`;
    let group = groups.get(key);
    if (group === undefined) groups.set(key, (group = { addressType, ports, endpoints: new Map() }));
    group.endpoints.set(pod.metadata.uid ?? "", endpointOf(service, pod));
  }
  if (groups.size === 0) groups.set("", { addressType: "IPv4", ports: [], endpoints: new Map() });
  return groups;
}

function endpointOf(service: Cached<ServiceObject>, pod: CachedPod): Endpoint {
  const serving = isPodReady(pod);
  const terminating = isPodTerminating(pod);
  const ready = service.spec?.publishNotReadyAddresses === true || (serving && !terminating);
  const { name = "", namespace = "", uid = "" } = pod.metadata;
  const { hostname, subdomain, nodeName } = pod.spec;
  return {
    addresses: [pod.status?.podIP ?? ""],
    conditions: { ready, serving, terminating },
    ...(hostname && subdomain === service.metadata.name ? { hostname } : {}),
    ...(nodeName ? { nodeName } : {}),
    targetRef: { kind: "Pod", namespace, name, uid },
  };
}

function labelsOf(service: Cached<ServiceObject>): Record<string, string> {
  return {
    ...service.metadata.labels,
    [serviceNameLabel]: service.metadata.name ?? "",
    [managedByLabel]: sliceManager,
    ...(service.spec?.clusterIP === "None" ? { [headlessLabel]: "" } : {}),
  };
}

function fill(
  service: Cached<ServiceObject>,
  labels: Record<string, string>,
  group: Group,
  slices: readonly Cached<EndpointSliceObject>[],
): readonly Write[] {
  const waiting = new Map(group.endpoints);
  const kept = slices.map((slice) => ({
    slice,
    endpoints: (slice.endpoints ?? []).flatMap(({ targetRef }) => {
      const uid = targetRef?.uid ?? "";
      const endpoint = waiting.get(uid);
      return endpoint !== undefined && waiting.delete(uid) ? [endpoint] : [];
    }),
  }));
  // Fill the fullest slice first, so that few slices change and none stays nearly empty.
  for (const { endpoints } of kept.toSorted((a, b) => b.endpoints.length - a.endpoints.length)) {
    for (const [uid, endpoint] of waiting) {
      if (endpoints.length >= maxEndpoints) break;
      endpoints.push(endpoint);
      waiting.delete(uid);
    }
  }
  const writes: Write[] = [];
  const rest = [...waiting.values()];
  const isEmpty = group.endpoints.size === 0;
  for (const [index, { slice, endpoints }] of kept.entries()) {
    // A Service without Pods keeps one slice.
    if (endpoints.length === 0 && !(isEmpty && index === 0)) {
      writes.push({ kind: "delete", type: EndpointSlice, object: slice });
    } else if (!jsonEquals(slice.endpoints ?? [], endpoints) || !jsonEquals(slice.metadata.labels, labels)) {
      const object = { ...slice, metadata: { ...slice.metadata, labels }, endpoints };
      writes.push({ kind: "update", type: EndpointSlice, object });
    }
  }
  if (rest.length === 0 && (kept.length > 0 || !isEmpty)) return writes;
  const { name = "", namespace = "" } = service.metadata;
  for (let at = 0; at < Math.max(rest.length, 1); at += maxEndpoints) {
    const object = {
      metadata: { generateName: `${name}-`, namespace, labels, ownerReferences: [controllerReference(service)] },
      addressType: group.addressType,
      endpoints: rest.slice(at, at + maxEndpoints),
      ports: group.ports,
    };
    writes.push({ kind: "create", type: EndpointSlice, object });
  }
  return writes;
}

function hasPorts(slice: Cached<EndpointSliceObject>, ports: readonly EndpointPort[]): boolean {
  const own = (slice.ports ?? []).map(({ name = "", protocol = "TCP", ...rest }) => ({ ...rest, name, protocol }));
  return stableJson(own) === stableJson(ports);
}
