import {
  type Condition,
  type DeepReadonly,
  getController,
  jsonEquals,
  type KubernetesObject,
  type OwnerReference,
} from "@keelson/api-machinery";
import { PodDisruptionBudget, type PodDisruptionBudgetObject } from "@keelson/api-machinery/kinds";
import { formatTime, parseTime } from "@keelson/api-machinery/time";
import { resolveIntOrPercent } from "../workload/int-or-percent.ts";
import { isPodReady, isPodTerminating, type SeenPod } from "../workload/pod-state.ts";
import { announce, type Decision, type Seen, sooner, type Write } from "../workload/write.ts";

/** How long a Pod whose eviction was granted counts as gone although nobody deletes it. As in kube-controller-manager. */
const deletionTimeoutMs = 120_000;

/** What controls Pods and has a number of replicas: a Deployment, a ReplicaSet, a StatefulSet. */
export interface ScaledObject extends KubernetesObject {
  spec: { replicas?: number; template?: { metadata?: { labels?: Record<string, string> } } };
}

/** What the status of a PodDisruptionBudget is decided upon. */
export interface ObservedBudget {
  readonly budget: Seen<PodDisruptionBudgetObject>;
  /** The Pods that it selects. */
  readonly pods: readonly SeenPod[];
  /** The object of its namespace that a reference names, where it is of a kind that is scaled and has the uid. */
  readonly scaledBy: (reference: DeepReadonly<OwnerReference>) => Seen<ScaledObject> | undefined;
}

/**
 * The status of a PodDisruptionBudget (KEP-85): how many of its Pods there should be, are healthy and have to be, and so how many may
 * be disrupted; written where it is another. Pods whose eviction was granted are not healthy, until two minutes later they are still
 * there.
 */
export function decideDisruption(observed: ObservedBudget, now: number): Decision {
  const { budget, pods } = observed;
  const { disruptedPods, late, requeueAfterMs } = disruptedOf(observed, now);
  const events = late.map((pod) =>
    announce(pod, "Warning", "NotDeleted", `Pod was expected by PDB ${namespaced(budget)} to be deleted but it wasn't`),
  );
  const wanted = wantedPods(observed);
  if ("failure" in wanted) {
    const before = budget.status ?? {};
    const failed = { ...before, disruptionsAllowed: 0, observedGeneration: budget.metadata.generation ?? 0 };
    return { writes: [...events, ...statusWrites(budget, failed, { reason: "SyncFailed", message: wanted.failure }, now)] };
  }
  const currentHealthy = pods.filter(
    (pod) => isPodReady(pod) && !isPodTerminating(pod) && disruptedPods[pod.metadata.name ?? ""] === undefined,
  ).length;
  const { expectedPods, desiredHealthy } = wanted;
  const disruptionsAllowed = expectedPods === 0 ? 0 : Math.max(0, currentHealthy - desiredHealthy);
  const status = {
    currentHealthy,
    desiredHealthy,
    ...(Object.keys(disruptedPods).length === 0 ? {} : { disruptedPods }),
    disruptionsAllowed,
    expectedPods,
    observedGeneration: budget.metadata.generation ?? 0,
  };
  const reason = disruptionsAllowed > 0 ? "SufficientPods" : "InsufficientPods";
  return { writes: [...events, ...statusWrites(budget, status, { reason, message: "" }, now)], requeueAfterMs };
}

/** How many Pods there should be and how many of them healthy, or why that is not known. */
function wantedPods(observed: ObservedBudget): { expectedPods: number; desiredHealthy: number } | { failure: string } {
  const { minAvailable, maxUnavailable } = observed.budget.spec ?? {};
  // A number of Pods that has to stay needs no knowledge of who makes them.
  if (maxUnavailable === undefined && typeof minAvailable !== "string") {
    const expectedPods = minAvailable === undefined ? 0 : observed.pods.length;
    return { expectedPods, desiredHealthy: minAvailable ?? 0 };
  }
  const scales = new Map<string, number>();
  for (const pod of observed.pods) {
    const controller = getController(pod);
    // A Pod that nobody controls is not replaced, and so is not expected.
    if (controller === undefined) continue;
    const scaled = topmost(controller, observed);
    if (scaled === undefined) return { failure: `found no controllers for pod "${pod.metadata.name}"` };
    scales.set(scaled.metadata.uid ?? "", scaled.spec.replicas ?? 1);
  }
  const expectedPods = [...scales.values()].reduce((sum, scale) => sum + scale, 0);
  const desiredHealthy =
    maxUnavailable === undefined
      ? resolveIntOrPercent(minAvailable, expectedPods, "up")
      : Math.max(0, expectedPods - resolveIntOrPercent(maxUnavailable, expectedPods, "up"));
  return { expectedPods, desiredHealthy };
}

/** Who says how many Pods there are: of a ReplicaSet that belongs to a Deployment, the Deployment. */
function topmost(reference: DeepReadonly<OwnerReference>, { scaledBy }: ObservedBudget): Seen<ScaledObject> | undefined {
  const owner = scaledBy(reference);
  const above = owner === undefined ? undefined : getController(owner);
  return above === undefined ? owner : (scaledBy(above) ?? owner);
}

/** Pods that were given leave to go and are still there, those that should be gone by now, and when the next should be. */
function disruptedOf({ budget, pods }: ObservedBudget, now: number) {
  const disruptedPods: Record<string, string> = {};
  const late: SeenPod[] = [];
  let requeueAfterMs: number | undefined;
  for (const pod of pods) {
    const { name = "" } = pod.metadata;
    const granted = budget.status?.disruptedPods ?? {};
    const time = Object.hasOwn(granted, name) ? granted[name] : undefined;
    if (time === undefined || isPodTerminating(pod)) continue;
    const left = (parseTime(time) ?? 0) + deletionTimeoutMs - now;
    if (left <= 0) late.push(pod);
    else {
      disruptedPods[name] = time;
      requeueAfterMs = sooner(requeueAfterMs, left);
    }
  }
  return { disruptedPods, late, requeueAfterMs };
}

function statusWrites(
  budget: Seen<PodDisruptionBudgetObject>,
  status: NonNullable<Seen<PodDisruptionBudgetObject>["status"]>,
  { reason, message }: { readonly reason: string; readonly message: string },
  now: number,
): readonly Write[] {
  const state = reason === "SufficientPods" ? "True" : "False";
  const others = (budget.status?.conditions ?? []).filter(({ type }) => type !== "DisruptionAllowed");
  const before = budget.status?.conditions?.find(({ type }) => type === "DisruptionAllowed");
  const condition: DeepReadonly<Condition> = {
    type: "DisruptionAllowed",
    status: state,
    reason,
    message,
    lastTransitionTime: before?.status === state ? before.lastTransitionTime : formatTime(now),
    observedGeneration: budget.metadata.generation ?? 0,
  };
  const next = { ...status, conditions: [...others, condition] };
  if (jsonEquals(budget.status, next)) return [];
  return [{ kind: "status", type: PodDisruptionBudget, object: { ...budget, status: next } as Seen }];
}

function namespaced({ metadata: { namespace = "", name = "" } }: Seen): string {
  return `${namespace}/${name}`;
}
