import { type DeepReadonly, isJsonObject, type KubernetesObject, type StatusError, statusError } from "@keelson/api-machinery";
import { listAt, mapAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { forbidden } from "../errors.ts";

type Seen = DeepReadonly<KubernetesObject>;

/** What becomes of an eviction: refused, done, or done once `budget` has its new status, which counts it. */
export type EvictionDecision =
  | { readonly kind: "refused"; readonly error: StatusError }
  | { readonly kind: "evict" }
  | { readonly kind: "evict-counted"; readonly budget: Seen; readonly status: Readonly<Record<string, unknown>> };

/**
 * Whether a Pod may be evicted, by the PodDisruptionBudgets that select it (policy/v1, KEP-85 and KEP-3017), worded as kube-apiserver
 * does. Their status is a controller's to keep: while it is behind a change of the budget, the client is to come again.
 *
 * @param time now, as metadata has it
 */
export function decideEviction(pod: Seen, budgets: readonly Seen[], time: string): EvictionDecision {
  const phase = textAt(pod, "status", "phase");
  const isIdle = phase === "Pending" || phase === "Succeeded" || phase === "Failed";
  const [budget, ...others] = budgets;
  if (isIdle || pod.metadata.deletionTimestamp !== undefined || budget === undefined) return { kind: "evict" };
  if (others.length > 0) {
    const message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    return { kind: "refused", error: statusError("InternalError", message) };
  }
  const name = budget.metadata.name ?? "";
  const count = (field: string): number => Number(valueAt(budget, "status", field) ?? 0);
  const currentHealthy = count("currentHealthy");
  const desiredHealthy = count("desiredHealthy");
  const disruptionsAllowed = count("disruptionsAllowed");
  if (!isReady(pod)) {
    const isAlways = textAt(budget, "spec", "unhealthyPodEvictionPolicy") === "AlwaysAllow";
    if (isAlways || (currentHealthy >= desiredHealthy && desiredHealthy > 0)) return { kind: "evict" };
  }
  if (count("observedGeneration") < (budget.metadata.generation ?? 0)) {
    return { kind: "refused", error: tooMany(`The disruption budget ${name} is still being processed by the server.`, 10) };
  }
  if (disruptionsAllowed < 0) {
    const subject = { group: "policy", plural: "poddisruptionbudgets" };
    return { kind: "refused", error: forbidden(subject, name, "pdb disruptions allowed is negative") };
  }
  if (disruptionsAllowed === 0) {
    const needs = `needs ${desiredHealthy} healthy pods and has ${currentHealthy} currently`;
    return { kind: "refused", error: tooMany(`The disruption budget ${name} ${needs}`) };
  }
  const status = {
    ...mapAt(budget, "status"),
    disruptionsAllowed: disruptionsAllowed - 1,
    disruptedPods: { ...mapAt(budget, "status", "disruptedPods"), [pod.metadata.name ?? ""]: time },
  };
  return { kind: "evict-counted", budget, status };
}

function isReady(pod: Seen): boolean {
  return listAt(pod, "status", "conditions").some(
    (condition) => isJsonObject(condition) && condition["type"] === "Ready" && condition["status"] === "True",
  );
}

function tooMany(cause: string, retryAfterSeconds?: number): StatusError {
  return statusError("TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", {
    causes: [{ reason: "DisruptionBudget", message: cause }],
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}
