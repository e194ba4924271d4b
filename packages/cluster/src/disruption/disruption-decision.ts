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
import { isPodReady, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import { eventWrite, type Decision, type Cached, earlier, type Write } from "../workload/write.ts";

/** How long a Pod with a granted eviction counts as disrupted if it is not deleted. As in kube-controller-manager. */
const deletionTimeoutMs = 120_000;

/** A controller of Pods with a scale: Deployment, ReplicaSet or StatefulSet. */
export interface ScaledObject extends KubernetesObject {
  spec: { replicas?: number; template?: { metadata?: { labels?: Record<string, string> } } };
}

/** The input of {@link decideDisruption}. */
export interface ObservedBudget {
  readonly budget: Cached<PodDisruptionBudgetObject>;
  /** The Pods that the budget selects. */
  readonly pods: readonly CachedPod[];
  /** Resolves an owner reference to a scaled object of the budget's namespace, if kind and uid match. */
  readonly scaledBy: (reference: DeepReadonly<OwnerReference>) => Cached<ScaledObject> | undefined;
}

/**
 * Computes the status of a PodDisruptionBudget (KEP-85) and writes it if it differs: how many Pods are expected, healthy and required,
 * and how many may be disrupted. A Pod with a granted eviction is not healthy, unless it still exists two minutes later.
 */
export function decideDisruption(observed: ObservedBudget, now: number): Decision {
  const { budget, pods } = observed;
  const { disruptedPods, late, requeueAfterMs } = disruptedOf(observed, now);
  const events = late.map((pod) =>
    eventWrite(pod, "Warning", "NotDeleted", `Pod was expected by PDB ${namespaced(budget)} to be deleted but it wasn't`),
  );
  const scale = scaleOf(observed);
  if ("failure" in scale) {
    const before = budget.status ?? {};
    const failed = { ...before, disruptionsAllowed: 0, observedGeneration: budget.metadata.generation ?? 0 };
    return { writes: [...events, ...statusWrites(budget, failed, { reason: "SyncFailed", message: scale.failure }, now)] };
  }
  const currentHealthy = pods.filter(
    (pod) => isPodReady(pod) && !isPodTerminating(pod) && disruptedPods[pod.metadata.name ?? ""] === undefined,
  ).length;
  const { expectedPods, desiredHealthy } = scale;
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

/** How many Pods are expected and must be healthy, or why that is unknown. */
function scaleOf(observed: ObservedBudget): { expectedPods: number; desiredHealthy: number } | { failure: string } {
  const { minAvailable, maxUnavailable } = observed.budget.spec ?? {};
  // An absolute minAvailable needs no owner lookup.
  if (maxUnavailable === undefined && typeof minAvailable !== "string") {
    const expectedPods = minAvailable === undefined ? 0 : observed.pods.length;
    return { expectedPods, desiredHealthy: minAvailable ?? 0 };
  }
  const scales = new Map<string, number>();
  for (const pod of observed.pods) {
    const controller = getController(pod);
    // A Pod without a controller is not replaced, so it is not expected.
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

/** The object that sets the scale: a ReplicaSet's Deployment, if it has one. */
function topmost(reference: DeepReadonly<OwnerReference>, { scaledBy }: ObservedBudget): Cached<ScaledObject> | undefined {
  const owner = scaledBy(reference);
  const above = owner === undefined ? undefined : getController(owner);
  return above === undefined ? owner : (scaledBy(above) ?? owner);
}

/** Pods with a granted eviction that still exist, those past the timeout, and the delay until the next timeout. */
function disruptedOf({ budget, pods }: ObservedBudget, now: number) {
  const disruptedPods: Record<string, string> = {};
  const late: CachedPod[] = [];
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
      requeueAfterMs = earlier(requeueAfterMs, left);
    }
  }
  return { disruptedPods, late, requeueAfterMs };
}

function statusWrites(
  budget: Cached<PodDisruptionBudgetObject>,
  status: NonNullable<Cached<PodDisruptionBudgetObject>["status"]>,
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
  return [{ kind: "status", type: PodDisruptionBudget, object: { ...budget, status: next } as Cached }];
}

function namespaced({ metadata: { namespace = "", name = "" } }: Cached): string {
  return `${namespace}/${name}`;
}
