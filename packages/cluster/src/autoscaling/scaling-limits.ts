import type { DeepReadonly } from "@keelson/api-machinery";
import type { HorizontalPodAutoscalerObject, ScalingRules } from "@keelson/api-machinery/kinds";

/** A number of replicas that usage called for at some time. */
export interface Recommendation {
  readonly replicas: number;
  readonly at: number;
}

/** A change of the number of replicas, positive or negative. */
export interface ScaleEvent {
  readonly change: number;
  readonly at: number;
}

/** What an autoscaler remembers between decisions. */
export interface ScalingHistory {
  readonly recommendations: readonly Recommendation[];
  readonly events: readonly ScaleEvent[];
}

/** Longest window and period that the API allows. */
const maxMemoryMs = 3_600_000;
/** Without `behavior`, fewer Pods are recommended for this long before some are removed. */
const defaultDownWindowMs = 300_000;

/** Drops what no rule can refer to any more. The count at the first decision is a recommendation: it was right until then. */
export function recentHistory({ recommendations, events }: ScalingHistory, current: number, now: number): ScalingHistory {
  const isRecent = ({ at }: { readonly at: number }): boolean => at > now - maxMemoryMs;
  const recent = recommendations.filter(isRecent);
  const known = recent.length === 0 ? [{ replicas: current, at: now }] : recent;
  return { recommendations: known, events: events.filter(isRecent) };
}

/** The outcome of the rules: the number of replicas, and what limited it. */
export interface LimitedReplicas {
  readonly replicas: number;
  /** Reason and message of condition `ScalingLimited`; undefined if nothing limited it. */
  readonly limit?: { readonly reason: string; readonly message: string };
}

/**
 * Applies stabilization windows, scaling policies and the bounds to a recommendation, as kube-controller-manager does. Without
 * `behavior`, the count at most doubles in one step, or grows to 4.
 */
export function limitReplicas(
  spec: DeepReadonly<HorizontalPodAutoscalerObject["spec"]>,
  current: number,
  recommended: number,
  history: ScalingHistory,
  now: number,
): LimitedReplicas {
  const { minReplicas = 1, maxReplicas, behavior } = spec;
  const stable = stabilized(behavior, current, recommended, history.recommendations, now);
  const up = behavior === undefined ? Math.max(2 * current, 4) : upperLimit(behavior.scaleUp, current, history.events, now);
  const down = behavior === undefined ? 0 : lowerLimit(behavior.scaleDown, current, history.events, now);
  if (stable > current && stable > Math.min(up, maxReplicas)) {
    return up < maxReplicas
      ? limited(up, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
      : limited(maxReplicas, "TooManyReplicas", "the desired replica count is more than the maximum replica count");
  }
  if (stable < current && stable < Math.max(down, minReplicas)) {
    return down > minReplicas
      ? limited(down, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
      : limited(minReplicas, "TooFewReplicas", "the desired replica count is less than the minimum replica count");
  }
  if (stable < minReplicas) {
    return limited(minReplicas, "TooFewReplicas", "the desired replica count is less than the minimum replica count");
  }
  if (stable > maxReplicas) {
    return limited(maxReplicas, "TooManyReplicas", "the desired replica count is more than the maximum replica count");
  }
  return { replicas: stable };
}

function limited(replicas: number, reason: string, message: string): LimitedReplicas {
  return { replicas, limit: { reason, message } };
}

/** Within the windows, more Pods must have been recommended all the time to add some, and fewer to remove some. */
function stabilized(
  behavior: DeepReadonly<HorizontalPodAutoscalerObject["spec"]["behavior"]>,
  current: number,
  recommended: number,
  recommendations: readonly Recommendation[],
  now: number,
): number {
  const within = (windowMs: number): readonly number[] =>
    recommendations.filter(({ at }) => at > now - windowMs).map(({ replicas }) => replicas);
  const windowOf = (rules: DeepReadonly<ScalingRules> | undefined, fallbackMs: number): number =>
    rules?.stabilizationWindowSeconds === undefined ? fallbackMs : rules.stabilizationWindowSeconds * 1000;
  const least = Math.min(recommended, ...within(windowOf(behavior?.scaleUp, 0)));
  const most = Math.max(recommended, ...within(windowOf(behavior?.scaleDown, defaultDownWindowMs)));
  return Math.min(Math.max(current, least), most);
}

type Rules = DeepReadonly<ScalingRules> | undefined;

function upperLimit(rules: Rules, current: number, events: readonly ScaleEvent[], now: number): number {
  if (rules?.selectPolicy === "Disabled") return current;
  const limits = (rules?.policies ?? []).map(({ type, value, periodSeconds }) => {
    const start = current - changeWithin(events, periodSeconds, now, 1);
    return type === "Pods" ? start + value : Math.ceil(start * (1 + value / 100));
  });
  return rules?.selectPolicy === "Min" ? Math.min(...limits) : Math.max(...limits);
}

function lowerLimit(rules: Rules, current: number, events: readonly ScaleEvent[], now: number): number {
  if (rules?.selectPolicy === "Disabled") return current;
  const limits = (rules?.policies ?? []).map(({ type, value, periodSeconds }) => {
    const start = current + changeWithin(events, periodSeconds, now, -1);
    return type === "Pods" ? start - value : Math.trunc(start * (1 - value / 100));
  });
  return rules?.selectPolicy === "Min" ? Math.max(...limits) : Math.min(...limits);
}

/** By how much the count grew (`direction` 1) or shrank (-1) within a period. */
function changeWithin(events: readonly ScaleEvent[], periodSeconds: number, now: number, direction: 1 | -1): number {
  return events
    .filter(({ at, change }) => at > now - periodSeconds * 1000 && Math.sign(change) === direction)
    .reduce((sum, { change }) => sum + Math.abs(change), 0);
}
