import { jsonEquals, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { HorizontalPodAutoscaler, type HorizontalPodAutoscalerObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { withCondition, type WorkloadCondition } from "../workload/workload-conditions.ts";
import { type Cached, type Decision, eventWrite, type Write } from "../workload/write.ts";
import { type ObservedMetrics, type Proposal, proposalOf } from "./metric-proposals.ts";
import { limitReplicas, recentHistory, type ScalingHistory } from "./scaling-limits.ts";

/** A HorizontalPodAutoscaler from the cache. */
export type CachedAutoscaler = Cached<HorizontalPodAutoscalerObject>;

/** How often usage is compared with the target. */
const syncPeriodMs = 15_000;

/** The scaled object. */
export interface ScaleTarget {
  readonly type: ResourceType;
  readonly object: Cached<KubernetesObject & { spec?: { replicas?: number }; status?: { replicas?: number } }>;
}

/** The input of {@link decideAutoscaler}. */
export interface ObservedAutoscaler extends ObservedMetrics {
  readonly autoscaler: CachedAutoscaler;
  /** Undefined if it does not exist. */
  readonly target: ScaleTarget | undefined;
  /** What earlier decisions remembered. */
  readonly history: ScalingHistory;
}

/** A decision and what to remember of it. */
export interface AutoscalerDecision extends Decision {
  readonly history: ScalingHistory;
}

/** Decides the number of Pods of a target from their resource usage, as kube-controller-manager does for autoscaling/v2. */
export function decideAutoscaler(observed: ObservedAutoscaler, now: number): AutoscalerDecision {
  const { autoscaler, target } = observed;
  const { scaleTargetRef } = autoscaler.spec;
  const conditions = autoscaler.status?.conditions ?? [];
  if (target === undefined) {
    const note = `${scaleTargetRef.kind} ${JSON.stringify(scaleTargetRef.name)} not found`;
    const message = `the HPA controller was unable to get the target's current scale: ${note}`;
    const able = withCondition(conditions, { type: "AbleToScale", status: "False", reason: "FailedGetScale", message }, now);
    const status = { desiredReplicas: 0, ...autoscaler.status, conditions: able };
    const writes = [warn(autoscaler, "FailedGetScale", note), ...statusWrites(autoscaler, status)];
    return { writes, history: observed.history, requeueAfterMs: syncPeriodMs };
  }
  const current = target.object.spec?.replicas ?? 1;
  const history = recentHistory(observed.history, current, now);
  const plan = planOf({ ...observed, target, history }, current, now);
  return { ...writesOf(autoscaler, target, plan, now), ...rememberedBy(plan, history, current, now) };
}

/** The number of replicas to set, why, and what the status says about it. */
interface Plan {
  readonly replicas: number;
  readonly reason: string;
  readonly currentMetrics: readonly object[];
  readonly conditions: readonly Omit<WorkloadCondition, "lastTransitionTime">[];
  readonly events: readonly Write[];
  /** What usage called for, before limits. */
  readonly recommended?: number;
}

const enabled = { type: "ScalingActive", status: "True" } as const;

function planOf(observed: ObservedAutoscaler & { readonly target: ScaleTarget }, current: number, now: number): Plan {
  const { minReplicas = 1, maxReplicas } = observed.autoscaler.spec;
  const able = {
    type: "AbleToScale",
    status: "True",
    reason: "SucceededGetScale",
    message: "the HPA controller was able to get the target's current scale",
  };
  const fixed = (replicas: number, reason: string): Plan => ({
    ...{ replicas, reason, currentMetrics: [], events: [], conditions: [able] },
  });
  // 0 replicas switch autoscaling off.
  if (current === 0 && minReplicas !== 0) {
    const message = "scaling is disabled since the replica count of the target is zero";
    const off = { type: "ScalingActive", status: "False", reason: "ScalingDisabled", message };
    return { ...fixed(0, ""), conditions: [able, off] };
  }
  if (current > maxReplicas) return fixed(maxReplicas, "Current number of replicas above Spec.MaxReplicas");
  if (current < minReplicas) return fixed(minReplicas, "Current number of replicas below Spec.MinReplicas");
  return planByMetrics(observed, current, able, now);
}

function planByMetrics(observed: ObservedAutoscaler, current: number, able: Plan["conditions"][number], now: number): Plan {
  const { autoscaler, history } = observed;
  const proposals = (autoscaler.spec.metrics ?? []).map((metric) => proposalOf(metric, observed, current, now));
  const valid = proposals.filter((proposal) => "replicas" in proposal);
  const failed = proposals.filter((proposal) => "failure" in proposal);
  const events = failed.map(({ reason, failure }) => warn(autoscaler, reason, failure));
  const best = valid.toSorted((a, b) => b.replicas - a.replicas)[0];
  const currentMetrics = valid.map(({ status }) => status);
  // Fewer Pods need all metrics; more need only the one that calls for them.
  if (best === undefined || (failed.length > 0 && best.replicas < current)) {
    return { ...unknownPlan(autoscaler, failed, current, able, events), currentMetrics };
  }
  const message = `the HPA was able to successfully calculate a replica count from ${best.name}`;
  const { replicas, limit } = limitReplicas(autoscaler.spec, current, best.replicas, history, now);
  const within = { reason: "DesiredWithinRange", message: "the desired count is within the acceptable range" };
  return {
    replicas,
    reason: replicas > current ? `${best.name} above target` : "All metrics below target",
    currentMetrics,
    events,
    recommended: best.replicas,
    conditions: [
      replicas === best.replicas
        ? { ...able, reason: "ReadyForNewScale", message: "recommended size matches current size" }
        : able,
      { ...enabled, reason: "ValidMetricFound", message },
      { type: "ScalingLimited", status: limit === undefined ? "False" : "True", ...(limit ?? within) },
    ],
  };
}

/** The count stays if metrics are missing. */
function unknownPlan(
  autoscaler: CachedAutoscaler,
  failed: readonly Extract<Proposal, { failure: string }>[],
  current: number,
  able: Plan["conditions"][number],
  events: readonly Write[],
): Plan {
  const total = autoscaler.spec.metrics?.length ?? 0;
  const [first] = failed;
  const note = `invalid metrics (${failed.length} invalid out of ${total}), first error is: ${first?.summary ?? ""}`;
  const message = `the HPA was unable to compute the replica count: ${first?.failure ?? ""}`;
  return {
    replicas: current,
    reason: "",
    currentMetrics: [],
    events: [...events, warn(autoscaler, "FailedComputeMetricsReplicas", note)],
    conditions: [able, { type: "ScalingActive", status: "False", reason: first?.reason ?? "", message }],
  };
}

function writesOf(autoscaler: CachedAutoscaler, target: ScaleTarget, plan: Plan, now: number): Decision {
  const current = target.object.spec?.replicas ?? 1;
  const isRescale = plan.replicas !== current;
  const note = `New size: ${plan.replicas}; reason: ${plan.reason}`;
  const rescale: readonly Write[] = [
    { kind: "patch", ...target, body: { spec: { replicas: plan.replicas } }, subresource: "scale" },
    eventWrite(autoscaler, "Normal", "SuccessfulRescale", note),
  ];
  const rescaled = {
    type: "AbleToScale",
    status: "True",
    reason: "SucceededRescale",
    message: `the HPA controller was able to update the target scale to ${plan.replicas}`,
  };
  let conditions: readonly WorkloadCondition[] = autoscaler.status?.conditions ?? [];
  for (const { reason = "", message = "", ...one } of [...plan.conditions, ...(isRescale ? [rescaled] : [])]) {
    conditions = withCondition(conditions, { ...one, reason, message }, now);
  }
  const lastScaleTime = isRescale ? formatTime(now) : autoscaler.status?.lastScaleTime;
  const currentReplicas = target.object.status?.replicas ?? 0;
  const status = {
    ...(currentReplicas === 0 ? {} : { currentReplicas }),
    desiredReplicas: plan.replicas,
    ...(lastScaleTime === undefined ? {} : { lastScaleTime }),
    currentMetrics: plan.currentMetrics.length === 0 ? null : plan.currentMetrics,
    conditions,
  };
  const writes = [...plan.events, ...(isRescale ? rescale : []), ...statusWrites(autoscaler, status)];
  return { writes, requeueAfterMs: syncPeriodMs };
}

function rememberedBy(
  { replicas, recommended }: Plan,
  history: ScalingHistory,
  current: number,
  now: number,
): Pick<AutoscalerDecision, "history"> {
  const added = recommended === undefined ? [] : [{ replicas: recommended, at: now }];
  const events = replicas === current ? history.events : [...history.events, { change: replicas - current, at: now }];
  return { history: { recommendations: [...history.recommendations, ...added], events } };
}

function statusWrites(autoscaler: CachedAutoscaler, status: object): readonly Write[] {
  if (jsonEquals(autoscaler.status ?? {}, status)) return [];
  return [{ kind: "status", type: HorizontalPodAutoscaler, object: { ...autoscaler, status } as Cached }];
}

function warn(autoscaler: CachedAutoscaler, reason: string, note: string): Write {
  return eventWrite(autoscaler, "Warning", reason, note);
}
