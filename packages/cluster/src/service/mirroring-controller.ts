import { Endpoints, EndpointSlice, Service } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, watchOf } from "@keelson/controller";
import { performWrites } from "../workload/perform-writes.ts";
import { managedByLabel, serviceNameLabel } from "./endpoint-slice-decision.ts";
import { decideMirroring, mirroringManager } from "./mirroring-decision.ts";

/** Mirrors Endpoints of Services without a selector to EndpointSlices. */
export const mirroringController: ControllerDefinition = defineController({
  name: "endpointslicemirroring",
  for: Endpoints,
  owns: [EndpointSlice],
  watches: [watchOf(Service, ({ metadata: { namespace, name } }) => [{ namespace, name }])],
  maxConcurrentReconciles: 5,
  async reconcile(request, context) {
    const { cache } = context;
    const slices = cache
      .list(EndpointSlice, { namespace: request.namespace })
      .filter(
        ({ metadata: { labels } }) =>
          labels?.[serviceNameLabel] === request.name && labels[managedByLabel] === mirroringManager,
      );
    const observed = { endpoints: cache.get(Endpoints, request), service: cache.get(Service, request), slices };
    await performWrites(decideMirroring(observed), context);
  },
});
