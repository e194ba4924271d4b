import { jsonEquals } from "@keelson/api-machinery";
import { Endpoints, type EndpointsObject, type ServiceObject } from "@keelson/api-machinery/kinds";
import { isPodReady, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import type { EndpointAddress } from "../workload/cached-objects.ts";
import { stableJson } from "../workload/template-hash.ts";
import type { Cached, Write } from "../workload/write.ts";
import { endpointPorts } from "./endpoint-ports.ts";
import { hasEndpoint, headlessLabel } from "./endpoint-slice-decision.ts";

/** Label of Endpoints that a controller writes. */
const endpointsManagedByLabel = "endpoints.kubernetes.io/managed-by";
const manager = "endpoint-controller";

/** The maximum number of addresses in an Endpoints object, as in kube-controller-manager. */
const maxAddresses = 1_000;

type Subset = NonNullable<EndpointsObject["subsets"]>[number];

/** Reconciles the Endpoints of a Service, which older clients read, with its Pods. */
export function decideEndpoints(
  service: Cached<ServiceObject>,
  pods: readonly CachedPod[],
  present: Cached<EndpointsObject> | undefined,
): readonly Write[] {
  const subsets = subsetsOf(service, pods);
  const { name = "", namespace = "" } = service.metadata;
  const labels = {
    ...service.metadata.labels,
    [endpointsManagedByLabel]: manager,
    ...(service.spec?.clusterIP === "None" ? { [headlessLabel]: "" } : {}),
  };
  if (present === undefined) {
    const object = { metadata: { name, namespace, labels }, ...(subsets.length > 0 ? { subsets } : {}) };
    return [{ kind: "create", type: Endpoints, object, mayExist: true }];
  }
  if (jsonEquals(present.subsets ?? [], subsets) && jsonEquals(present.metadata.labels, labels)) return [];
  const object = { ...present, metadata: { ...present.metadata, labels }, subsets };
  return [{ kind: "update", type: Endpoints, object: object }];
}

/** Deletes managed Endpoints without a Service. */
export function decideOrphanedEndpoints(present: Cached<EndpointsObject> | undefined): readonly Write[] {
  return present?.metadata.labels?.[endpointsManagedByLabel] === manager
    ? [{ kind: "delete", type: Endpoints, object: present }]
    : [];
}

function subsetsOf(service: Cached<ServiceObject>, pods: readonly CachedPod[]): readonly Subset[] {
  const publishesAll = service.spec?.publishNotReadyAddresses === true;
  const groups = new Map<string, { ready: EndpointAddress[]; notReady: EndpointAddress[]; ports: Subset["ports"] }>();
  const serving = pods.filter((pod) => hasEndpoint(pod) && (publishesAll || !isPodTerminating(pod)));
  for (const pod of serving
    .toSorted((a, b) => ((a.status?.podIP ?? "") < (b.status?.podIP ?? "") ? -1 : 1))
    .slice(0, maxAddresses)) {
    const ports = endpointPorts(service, pod).map(({ name, ...port }) => (name === "" ? port : { name, ...port }));
    const key = stableJson(ports);
    let group = groups.get(key);
    if (group === undefined) groups.set(key, (group = { ready: [], notReady: [], ports }));
    (publishesAll || isPodReady(pod) ? group.ready : group.notReady).push(addressOf(service, pod));
  }
  return [...groups.values()].map(({ ready, notReady, ports }) => ({
    ...(ready.length > 0 ? { addresses: ready } : {}),
    ...(notReady.length > 0 ? { notReadyAddresses: notReady } : {}),
    ...(ports !== undefined && ports.length > 0 ? { ports } : {}),
  }));
}

function addressOf(service: Cached<ServiceObject>, pod: CachedPod): EndpointAddress {
  const { name = "", namespace = "", uid = "" } = pod.metadata;
  const { hostname, subdomain, nodeName } = pod.spec;
  return {
    ip: pod.status?.podIP ?? "",
    ...(hostname && subdomain === service.metadata.name ? { hostname } : {}),
    ...(nodeName ? { nodeName } : {}),
    targetRef: { kind: "Pod", namespace, name, uid },
  };
}
