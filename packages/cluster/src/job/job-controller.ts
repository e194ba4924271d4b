import { type DeepReadonly, getController, type KubernetesObject, refersTo } from "@keelson/api-machinery";
import { Job, Pod } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { byController, controllerIndex, orphansOf } from "../workload/ownership.ts";
import { applyDecision, performWrites } from "../workload/perform-writes.ts";
import { claimPods, isSelectedBy } from "./job-claims.ts";
import { decideJob, decideOrphanedPods } from "./job-decision.ts";

const jobIndex = "job";

/** Indexes Pods by namespace and name of their Job, because a deleted Job's uid is unknown. */
function byJob(pod: DeepReadonly<KubernetesObject>): readonly string[] {
  const controller = getController(pod);
  return controller !== undefined && refersTo(controller, Job) ? [`${pod.metadata.namespace}/${controller.name}`] : [];
}

/** Runs the Pods of a Job to completion. */
export const jobController: ControllerDefinition = defineController({
  name: "job",
  for: Job,
  owns: [Pod],
  reads: [readOf(Pod, { [jobIndex]: byJob, [controllerIndex]: byController })],
  watches: [
    // A Pod without a controller may be adopted.
    watchOf(Pod, (pod, { cache }) => {
      const { namespace, labels } = pod.metadata;
      if (getController(pod) !== undefined) return [];
      return cache
        .list(Job, { namespace })
        .filter((job) => isSelectedBy(job, labels))
        .map(({ metadata }) => ({ namespace, name: metadata.name ?? "" }));
    }),
  ],
  maxConcurrentReconciles: 5,
  async reconcile(request, context) {
    const { cache, clock } = context;
    const job = cache.get(Job, request);
    const { managedBy } = (job?.spec ?? {}) as { readonly managedBy?: string };
    if (managedBy !== undefined && managedBy !== "kubernetes.io/job-controller") return undefined;
    const named = cache.list(Pod, { index: [jobIndex, `${request.namespace}/${request.name}`] });
    const own = named.filter((pod) => getController(pod)?.uid === job?.metadata.uid);
    // Pods of a deleted Job of this name.
    const orphans = named.filter((pod) => getController(pod)?.uid !== job?.metadata.uid);
    await performWrites(decideOrphanedPods(orphans), context);
    if (job === undefined) return undefined;
    const unowned = cache.list(Pod, { index: [controllerIndex, orphansOf(request.namespace)] });
    const { owned: pods, writes } = claimPods(job, [...own, ...unowned]);
    if (writes.length > 0) {
      // The Pods are counted with the change that these writes cause.
      await performWrites(writes, context);
      return undefined;
    }
    return applyDecision(decideJob({ job, pods }, clock.now()), context);
  },
});
