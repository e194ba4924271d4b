import { getController, isAlreadyExists } from "@keelson/api-machinery";
import { Deployment, Pod, ReplicaSet } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { byController, controllerIndex, orphansOf, workloadSelector } from "../workload/ownership.ts";
import { applyDecision, performWrites, resultOf } from "../workload/perform-writes.ts";
import { decideCollision, decideDeployment } from "./deployment-decision.ts";

/** Rolls a Deployment's template out over its ReplicaSets. */
export const deploymentController: ControllerDefinition = defineController({
  name: "deployment",
  for: Deployment,
  owns: [ReplicaSet],
  reads: [readOf(ReplicaSet, { [controllerIndex]: byController }), readOf(Pod, { [controllerIndex]: byController })],
  watches: [
    watchOf(ReplicaSet, (replicaSet, { cache }) => {
      if (getController(replicaSet) !== undefined) return [];
      const { namespace, labels } = replicaSet.metadata;
      return cache
        .list(Deployment, { namespace })
        .filter(({ spec }) => workloadSelector(spec.selector).matches(labels))
        .map(({ metadata: { name } }) => ({ namespace, name }));
    }),
    // With Recreate the last old Pod must be deleted before the first new one is created.
    watchOf(
      Pod,
      (pod, { cache }) => {
        const { namespace } = pod.metadata;
        const name = getController(pod)?.name;
        const replicaSet = name === undefined ? undefined : cache.get(ReplicaSet, { namespace, name });
        const deployment = replicaSet === undefined ? undefined : getController(replicaSet)?.name;
        return deployment === undefined ? [] : [{ namespace, name: deployment }];
      },
      [({ type }) => type === "delete"],
    ),
  ],
  maxConcurrentReconciles: 5,
  async reconcile(request, context) {
    const { cache, clock, client, signal } = context;
    const deployment = cache.get(Deployment, request);
    if (deployment === undefined) return undefined;
    const replicaSets = [deployment.metadata.uid ?? "", orphansOf(request.namespace)].flatMap((value) =>
      cache.list(ReplicaSet, { index: [controllerIndex, value] }),
    );
    const pods =
      deployment.spec.strategy?.type === "Recreate"
        ? replicaSets.flatMap(({ metadata }) => cache.list(Pod, { index: [controllerIndex, metadata.uid ?? ""] }))
        : [];
    const decision = decideDeployment({ deployment, replicaSets, pods }, clock.now());
    try {
      await performWrites(decision.writes, context);
    } catch (error) {
      const made = decision.writes[0];
      if (!isAlreadyExists(error) || made?.kind !== "create") throw error;
      const name = made.object.metadata.name ?? "";
      const existing = await client.get(ReplicaSet, { namespace: request.namespace, name }, { signal });
      return await applyDecision(decideCollision(deployment, existing), context);
    }
    return resultOf(decision);
  },
});
