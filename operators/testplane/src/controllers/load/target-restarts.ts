import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestStatus } from "../../api/load-test.ts";
import { type Observation, type Target } from "../../evaluation/target.ts";
import { createPodsOf } from "../../evaluation/workload-pods.ts";
import type { Resource } from "../../functions/function.ts";
import { numberAt, objectsAt, stringAt } from "../../functions/read.ts";

type Restarts = Pick<LoadTestStatus, "targetPods" | "targetRestarts">;

/** Maximum Pods whose restarts are counted. */
const maxPods = 500;

/**
 * Counts the restarts of the target's containers and the deletions of its Pods since the load started. The first observation records
 * where to count from. Returns the fields as they are while the Pods are not known.
 */
export function countTargetRestarts(
  before: DeepReadonly<Restarts>,
  target: Target,
  observe: (target: Target) => Observation,
): DeepReadonly<Restarts> {
  const pods = podsOf(target, observe);
  if (pods === undefined) return before;
  const restarts = new Map(pods.slice(0, maxPods).map((pod) => [stringAt(pod, "metadata", "uid"), restartsOf(pod)]));
  if (before.targetPods === undefined) {
    return { targetPods: [...restarts].map(([uid, count]) => ({ uid, restarts: count })), targetRestarts: 0 };
  }
  let total = 0;
  const known = new Set<string>();
  for (const { uid, restarts: base } of before.targetPods) {
    known.add(uid);
    // A Pod that was deleted counts as one restart.
    total += Math.max((restarts.get(uid) ?? base + 1) - base, 0);
  }
  for (const [uid, count] of restarts) if (!known.has(uid)) total += count;
  return { targetPods: before.targetPods, targetRestarts: Math.max(total, before.targetRestarts ?? 0) };
}

function podsOf(target: Target, observe: (target: Target) => Observation): readonly NonNullable<Resource>[] | undefined {
  const observation = observe(target);
  if (observation.kind !== "known") return undefined;
  if (target.kind === "Pod") return observation.objects;
  const podsOfWorkload = createPodsOf(observe, target);
  const found: NonNullable<Resource>[] = [];
  for (const workload of observation.objects) {
    const pods = podsOfWorkload(workload);
    if (pods === undefined || pods === "loading") return undefined;
    found.push(...pods);
  }
  return found;
}

const restartsOf = (pod: Resource): number =>
  objectsAt(pod, "status", "containerStatuses").reduce(
    (total, container) => total + numberAt(container, ["restartCount"], 0),
    0,
  );
