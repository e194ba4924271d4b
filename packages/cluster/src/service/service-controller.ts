import { jsonEquals } from "@keelson/api-machinery";
import { Endpoints, EndpointSlice, Pod, type PodObject, Service } from "@keelson/api-machinery/kinds";
import { selectorFromLabels } from "@keelson/api-machinery/selectors";
import { type Change, type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { compiledOnce } from "../workload/compiled-once.ts";
import { performWrites } from "../workload/perform-writes.ts";
import { isPodReady } from "../workload/pod-state.ts";
import {
  decideEndpointSlices,
  hasEndpoint,
  managedByLabel,
  serviceNameLabel,
  sliceManager,
} from "./endpoint-slice-decision.ts";
import { decideEndpoints, decideOrphanedEndpoints } from "./endpoints-decision.ts";

const selectorOf = compiledOnce(selectorFromLabels);

/** Maintains the EndpointSlices and Endpoints of Services. */
export const serviceController: ControllerDefinition = defineController({
  name: "endpointslice",
  for: Service,
  owns: [EndpointSlice],
  reads: [
    readOf(Endpoints),
    // Slices that this controller manages, by the key of their Service.
    readOf(EndpointSlice, {
      service: ({ metadata: { namespace, labels = {} } }) =>
        labels[managedByLabel] === sliceManager ? [serviceKey(namespace, labels[serviceNameLabel])] : [],
    }),
  ],
  watches: [
    watchOf(
      Pod,
      (pod, { cache }) => {
        const { namespace, labels } = pod.metadata;
        return cache
          .list(Service, { namespace })
          .filter(({ spec }) => hasSelector(spec) && selectorOf(spec?.selector ?? {}).matches(labels))
          .map(({ metadata: { name } }) => ({ namespace, name }));
      },
      [affectsEndpoints],
    ),
    watchOf(Endpoints, ({ metadata: { namespace, name } }) => [{ namespace, name }]),
  ],
  maxConcurrentReconciles: 5,
  async reconcile(request, context) {
    const { cache } = context;
    const { namespace, name } = request;
    const service = cache.get(Service, request);
    const endpoints = cache.get(Endpoints, request);
    if (service === undefined) {
      await performWrites(decideOrphanedEndpoints(endpoints), context);
      return;
    }
    // Endpoints of a Service without a selector are managed by users.
    if (!hasSelector(service.spec) || service.metadata.deletionTimestamp !== undefined) return;
    const selector = selectorOf(service.spec?.selector ?? {});
    const pods = cache.list(Pod, { namespace }).filter((pod) => hasEndpoint(pod) && selector.matches(pod.metadata.labels));
    const slices = cache.list(EndpointSlice, { namespace, index: ["service", serviceKey(namespace, name)] });
    const writes = [...decideEndpointSlices({ service, pods, slices }), ...decideEndpoints(service, pods, endpoints)];
    await performWrites(writes, context);
  },
});

const serviceKey = (namespace = "", name = ""): string => `${namespace}/${name}`;

function hasSelector(spec: { readonly selector?: object; readonly type?: string } | undefined): boolean {
  return spec?.type !== "ExternalName" && Object.keys(spec?.selector ?? {}).length > 0;
}

function affectsEndpoints({ type, object, old }: Change<PodObject>): boolean {
  // A user can create and change thousands of Pods that have no address.
  if (!hasEndpoint(object) && (old === undefined || !hasEndpoint(old))) return false;
  if (type !== "update" || old === undefined) return true;
  return (
    old.status?.podIP !== object.status?.podIP ||
    old.status?.phase !== object.status?.phase ||
    old.spec.nodeName !== object.spec.nodeName ||
    old.metadata.deletionTimestamp !== object.metadata.deletionTimestamp ||
    isPodReady(old) !== isPodReady(object) ||
    !jsonEquals(old.metadata.labels, object.metadata.labels)
  );
}
