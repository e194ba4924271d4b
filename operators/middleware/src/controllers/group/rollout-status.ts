import { type DeepReadonly, draft, jsonEquals } from "@keelson/api-machinery";
import type { Group, GroupSpec, GroupStatus } from "../../api/group.ts";
import type { FoundPlugin } from "../../plugin/plugin-reader.ts";
import { type HeldRollout, hashOf, type RenderedGroup } from "../../plugin/render-group.ts";
import { type Rollout, rolloutOf } from "../../plugin/rollout.ts";
import { isOutdated, type PodView } from "./pod-view.ts";

/**
 * The last complete rollout, if the partition holds Pods at it, with its plugin. Undefined without a partition, and if the spec does not
 * differ from it.
 */
export function heldRollout(
  { spec, status }: DeepReadonly<Group>,
  findPlugin: (wanted: DeepReadonly<Rollout>["plugin"]) => FoundPlugin,
): HeldRollout | { readonly problem: string } | undefined {
  const rollout = partitionedOff(spec, status);
  if (rollout === undefined) return undefined;
  const plugin = findPlugin(rollout.plugin);
  return "problem" in plugin ? { problem: `Pods below the partition: ${plugin.problem}` } : { rollout, plugin };
}

/**
 * The last complete rollout if a partition applies and the spec differs from it. This does not depend on the number of Pods: a Group that is
 * stopped or has no replicas keeps the rollout with which Pods below the partition start again.
 */
function partitionedOff(
  spec: DeepReadonly<GroupSpec>,
  status: DeepReadonly<GroupStatus> | undefined,
): DeepReadonly<Rollout> | undefined {
  // It was written by this controller.
  const rollout = status?.completed as DeepReadonly<Rollout> | undefined;
  if (rollout === undefined || (spec.rollingUpdate?.partition ?? 0) === 0) return undefined;
  return jsonEquals(rollout, rolloutOf(spec)) ? undefined : rollout;
}

/**
 * Sets the revisions and the number of updated Pods. A rollout is complete when its operation has succeeded and no partition applies to it.
 * Mutates `status`.
 */
export function setRollout(spec: DeepReadonly<GroupSpec>, views: readonly PodView[], status: GroupStatus): void {
  const rollout = rolloutOf(spec);
  const isHeld = partitionedOff(spec, status) !== undefined;
  const isDone = status.operation?.phase === "Succeeded" || (status.operation === undefined && status.completed === undefined);
  if (isDone && !isHeld) status.completed = draft(rollout) as NonNullable<GroupStatus["completed"]>;
  status.updateRevision = hashOf(rollout);
  status.currentRevision = hashOf(status.completed ?? rollout);
  status.updatedReplicas = views.filter(isUpdated).length;
}

/** Whether a Pod has the revision of the spec, and its parameters as far as its agent reports them. */
function isUpdated(view: PodView): boolean {
  const { pod, instance, role } = view;
  if (pod === undefined || instance === undefined || instance.isHeld || isOutdated(view)) return false;
  return role?.configHash === undefined || role.configHash === instance.configHash;
}

/** How a successful operation ended. */
export function doneMessage({ rollingUpdate }: DeepReadonly<GroupSpec>, { instances }: RenderedGroup): string {
  const held = instances.filter((instance) => instance.isHeld).length;
  return held === 0 ? "done" : `done; partition ${rollingUpdate?.partition ?? 0} holds ${held} of ${instances.length} Pods`;
}
