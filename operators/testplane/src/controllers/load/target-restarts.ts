import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestStatus } from "../../api/load-test.ts";
import { type Observation, type Target } from "../../evaluation/target.ts";
import { createPodsOf } from "../../evaluation/workload-pods.ts";
import type { Resource } from "../../functions/function.ts";
import { numberAt, objectsAt, stringAt } from "../../functions/read.ts";

type Restarts = Pick<LoadTestStatus, "targetPods" | "targetRestarts">;

/** Maximum number of Pods that are recorded. Restarts of others do not count. */
const maxPods = 500;

/**
 * Counts the restarts of the target's containers and the deletions of its Pods since the load started. The first observation records
 * where to count from; later ones record new Pods and the latest counts, so that those of deleted Pods are kept. Returns the fields as
 * they are while the Pods are not known.
 */
export function countTargetRestarts(
  before: DeepReadonly<Restarts>,
  target: Target,
  observe: (target: Target) => Observation,
): DeepReadonly<Restarts> {
  const pods = podsOf(target, observe);
  if (pods === undefined) return before;
  const current = new Map(pods.map((pod) => [stringAt(pod, "metadata", "uid"), restartsOf(pod)]));
  const isFirst = before.targetPods === undefined;
  const known = (before.targetPods ?? []).map((pod) => ({ ...pod, ...lastRestarts(current.get(pod.uid)) }));
  const uids = new Set(known.map(({ uid }) => uid));
  // Beyond the maximum, a Pod's count at the start of the load is not known.
  const isBase = isFirst || known.length >= maxPods;
  const added = [...current]
    .filter(([uid]) => !uids.has(uid))
    .map(([uid, count]) => ({ uid, restarts: isBase ? count : 0, ...(isBase ? {} : { lastRestarts: count }) }));
  const all: readonly KnownPod[] = [...known, ...added];
  const total = all.reduce((sum, pod) => sum + restartsSince(pod, current.has(pod.uid)), 0);
  return { targetPods: all.slice(0, maxPods), targetRestarts: Math.max(total, before.targetRestarts ?? 0) };
}

type KnownPod = NonNullable<DeepReadonly<Restarts>["targetPods"]>[number];

const lastRestarts = (count: number | undefined): Pick<KnownPod, "lastRestarts"> =>
  count === undefined ? {} : { lastRestarts: count };

/** The restarts of a Pod since the load started. Its deletion counts as one more. */
const restartsSince = ({ restarts, lastRestarts: last = restarts }: KnownPod, exists: boolean): number =>
  Math.max(last - restarts, 0) + (exists ? 0 : 1);

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

/** Restarts of a Pod's containers and sidecars, as `kubectl get` counts them. */
function restartsOf(pod: Resource): number {
  const sidecars = new Set(
    objectsAt(pod, "spec", "initContainers")
      .filter((container) => stringAt(container, "restartPolicy") === "Always")
      .map((container) => stringAt(container, "name")),
  );
  const statuses = [
    ...objectsAt(pod, "status", "containerStatuses"),
    ...objectsAt(pod, "status", "initContainerStatuses").filter((status) => sidecars.has(stringAt(status, "name"))),
  ];
  return statuses.reduce((total, status) => total + numberAt(status, ["restartCount"], 0), 0);
}
