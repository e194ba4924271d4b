import { controllerReference, jsonEquals } from "@keelson/api-machinery";
import {
  EndpointSlice,
  type EndpointSliceObject,
  type EndpointsObject,
  type ServiceObject,
} from "@keelson/api-machinery/kinds";
import { stableJson } from "../workload/template-hash.ts";
import type { Cached, Write } from "../workload/write.ts";
import { managedByLabel, serviceNameLabel } from "./endpoint-slice-decision.ts";

/** The value of {@link managedByLabel} on mirrored slices. */
export const mirroringManager = "endpointslicemirroring-controller.k8s.io";
const skipMirrorLabel = "endpointslice.kubernetes.io/skip-mirror";
const leaderAnnotation = "control-plane.alpha.kubernetes.io/leader";
const excludedAnnotations: ReadonlySet<string> = new Set([
  "kubectl.kubernetes.io/last-applied-configuration",
  "endpoints.kubernetes.io/last-change-trigger-time",
]);

/** Limits of kube-controller-manager: addresses per subset and endpoints per slice. */
const maxEndpoints = 1_000;

/** The input of {@link decideMirroring}. */
export interface ObservedEndpoints {
  readonly endpoints: Cached<EndpointsObject> | undefined;
  /** The Service of the same name. */
  readonly service: Cached<ServiceObject> | undefined;
  /** The slices that mirror these Endpoints. */
  readonly slices: readonly Cached<EndpointSliceObject>[];
}

type Slice = Pick<EndpointSliceObject, "addressType" | "endpoints" | "ports">;
type Subset = NonNullable<Cached<EndpointsObject>["subsets"]>[number];

/** Mirrors Endpoints that users maintain for a Service without a selector to EndpointSlices (KEP-752). */
export function decideMirroring({ endpoints, service, slices }: ObservedEndpoints): readonly Write[] {
  const wanted = endpoints !== undefined && isMirrored(endpoints, service) ? slicesOf(endpoints) : [];
  const left = slices.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const writes: Write[] = [];
  for (const slice of wanted) {
    if (endpoints === undefined) break;
    const at = left.findIndex((each) => keyOf(each) === keyOf(slice));
    const [present] = at < 0 ? [] : left.splice(at, 1);
    const { name = "", namespace = "" } = endpoints.metadata;
    const labels = { ...endpoints.metadata.labels, [serviceNameLabel]: name, [managedByLabel]: mirroringManager };
    const annotations = Object.fromEntries(
      Object.entries(endpoints.metadata.annotations ?? {}).filter(([key]) => !excludedAnnotations.has(key)),
    );
    if (present === undefined) {
      const metadata = {
        generateName: `${name}-`,
        namespace,
        labels,
        annotations,
        ownerReferences: [controllerReference(endpoints)],
      };
      writes.push({ kind: "create", type: EndpointSlice, object: { metadata, ...slice } });
      continue;
    }
    const isSame =
      jsonEquals(present.endpoints ?? [], slice.endpoints) &&
      jsonEquals(present.metadata.labels, labels) &&
      jsonEquals(present.metadata.annotations ?? {}, annotations);
    if (isSame) continue;
    const object = { ...present, metadata: { ...present.metadata, labels, annotations }, endpoints: slice.endpoints };
    writes.push({ kind: "update", type: EndpointSlice, object: object });
  }
  return [...writes, ...left.map((object): Write => ({ kind: "delete", type: EndpointSlice, object: object as Cached }))];
}

function isMirrored({ metadata }: Cached<EndpointsObject>, service: Cached<ServiceObject> | undefined): boolean {
  if (service === undefined || service.metadata.deletionTimestamp !== undefined) return false;
  if (Object.keys(service.spec?.selector ?? {}).length > 0 || metadata.deletionTimestamp !== undefined) return false;
  return metadata.labels?.[skipMirrorLabel] !== "true" && metadata.annotations?.[leaderAnnotation] === undefined;
}

function slicesOf({ subsets = [] }: Cached<EndpointsObject>): readonly Slice[] {
  const groups = new Map<string, { slice: Slice; endpoints: Slice["endpoints"] }>();
  for (const subset of subsets) {
    for (const endpoint of endpointsOf(subset).slice(0, maxEndpoints)) {
      const addressType = endpoint.addresses[0]?.includes(":") ? "IPv6" : "IPv4";
      const ports = (subset.ports ?? []).map(({ name = "", port, protocol = "TCP", ...rest }) => ({
        name,
        port,
        protocol,
        ...rest,
      }));
      const slice = { addressType, ports, endpoints: [] } as Slice;
      const group = groups.get(keyOf(slice)) ?? { slice, endpoints: [] };
      groups.set(keyOf(slice), group);
      group.endpoints.push(endpoint);
    }
  }
  return [...groups.values()].map(({ slice, endpoints }) => ({ ...slice, endpoints: endpoints.slice(0, maxEndpoints) }));
}

function endpointsOf({ addresses = [], notReadyAddresses = [] }: Subset): Slice["endpoints"] {
  const endpoint =
    (ready: boolean) =>
    ({ ip, hostname, nodeName, targetRef }: NonNullable<Subset["addresses"]>[number]): Slice["endpoints"][number] => ({
      addresses: [ip],
      conditions: { ready },
      ...(hostname ? { hostname } : {}),
      ...(nodeName ? { nodeName } : {}),
      ...(targetRef ? { targetRef: { ...targetRef } } : {}),
    });
  return [...addresses.map(endpoint(true)), ...notReadyAddresses.map(endpoint(false))];
}

function keyOf({ addressType, ports = [] }: Pick<Cached<EndpointSliceObject>, "addressType" | "ports">): string {
  return `${addressType} ${stableJson(ports.map(({ name = "", protocol = "TCP", ...rest }) => ({ ...rest, name, protocol })))}`;
}
