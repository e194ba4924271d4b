import { type DeepReadonly, type StatusError, statusError } from "@keelson/api-machinery";
import type { PodDisruptionBudgetObject, PodObject } from "@keelson/api-machinery/kinds";
import { unclassifiedError } from "@keelson/api-machinery/validation";
import { forbidden } from "../errors.ts";

type Budget = DeepReadonly<PodDisruptionBudgetObject>;
type BudgetStatus = NonNullable<Budget["status"]>;

/** The result of an eviction request: rejected, evict, or evict once `budget` has the new `status` that counts the eviction. */
export type EvictionDecision =
  | { readonly kind: "rejected"; readonly error: StatusError }
  | { readonly kind: "evict" }
  | { readonly kind: "evict-counted"; readonly budget: Budget; readonly status: BudgetStatus };

/**
 * Decides whether the PodDisruptionBudgets that select a Pod allow its eviction (policy/v1, KEP-85, KEP-3017). A controller maintains
 * the budgets' status; if it has not observed the latest generation yet, the client is asked to retry.
 *
 * @param time the current time in RFC 3339
 */
export function decideEviction(pod: DeepReadonly<PodObject>, budgets: readonly Budget[], time: string): EvictionDecision {
  const phase = pod.status?.phase ?? "";
  const isIdle = phase === "Pending" || phase === "Succeeded" || phase === "Failed";
  const [budget, ...others] = budgets;
  if (isIdle || pod.metadata.deletionTimestamp !== undefined || budget === undefined) return { kind: "evict" };
  if (others.length > 0) {
    const message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    return { kind: "rejected", error: unclassifiedError(message) };
  }
  const name = budget.metadata.name ?? "";
  const { currentHealthy = 0, desiredHealthy = 0, disruptionsAllowed = 0, observedGeneration = 0 } = budget.status ?? {};
  if (!isReady(pod)) {
    const isAlwaysAllowed = budget.spec?.unhealthyPodEvictionPolicy === "AlwaysAllow";
    if (isAlwaysAllowed || (currentHealthy >= desiredHealthy && desiredHealthy > 0)) return { kind: "evict" };
  }
  if (observedGeneration < (budget.metadata.generation ?? 0)) {
    return { kind: "rejected", error: tooMany(`The disruption budget ${name} is still being processed by the server.`, 10) };
  }
  if (disruptionsAllowed < 0) {
    const subject = { group: "policy", plural: "poddisruptionbudgets" };
    return { kind: "rejected", error: forbidden(subject, name, "pdb disruptions allowed is negative") };
  }
  if (disruptionsAllowed === 0) {
    const needs = `needs ${desiredHealthy} healthy pods and has ${currentHealthy} currently`;
    return { kind: "rejected", error: tooMany(`The disruption budget ${name} ${needs}`) };
  }
  const status: BudgetStatus = {
    ...budget.status,
    ...(disruptionsAllowed === 1 ? { conditions: withExhausted(budget, time) } : {}),
    disruptionsAllowed: disruptionsAllowed - 1,
    disruptedPods: { ...budget.status?.disruptedPods, [pod.metadata.name ?? ""]: time },
  };
  return { kind: "evict-counted", budget, status };
}

/** The budget's conditions once its last disruption is used. */
function withExhausted({ metadata, status }: Budget, time: string): BudgetStatus["conditions"] {
  const type = "DisruptionAllowed";
  const before = status?.conditions?.find((condition) => condition.type === type);
  const lastTransitionTime = before?.status === "False" ? before.lastTransitionTime : time;
  const { generation } = metadata;
  const condition = {
    type,
    status: "False",
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    lastTransitionTime: lastTransitionTime ?? time,
    reason: "InsufficientPods",
    message: "",
  } as const;
  return [...(status?.conditions ?? []).filter((other) => other.type !== type), condition];
}

function isReady({ status }: DeepReadonly<PodObject>): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True") ?? false;
}

function tooMany(cause: string, retryAfterSeconds?: number): StatusError {
  return statusError("TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", {
    causes: [{ reason: "DisruptionBudget", message: cause }],
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}
