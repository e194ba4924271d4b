import { jsonEquals, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { HorizontalPodAutoscaler, type HorizontalPodAutoscalerObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import type { CachedPod } from "../workload/pod-state.ts";
import { type Cached, type Decision, eventWrite, type Write } from "../workload/write.ts";
import { type PodMetricsObject, replicasForUtilization } from "./cpu-utilization.ts";

/** A HorizontalPodAutoscaler from the cache. */
export type CachedAutoscaler = Cached<HorizontalPodAutoscalerObject>;

/** How often usage is compared with the target. */
const syncPeriodMs = 15_000;
/** The number of Pods is not lowered below any recommendation of this time. */
const stabilizationMs = 300_000;
const defaultTargetPercent = 80;

/** The scaled object. */
export interface ScaleTarget {
  readonly type: ResourceType;
  readonly object: Cached<KubernetesObject & { spec?: { replicas?: number }; status?: { replicas?: number } }>;
}

/** A number of replicas that usage called for at some time. */
export interface Recommendation {
  readonly replicas: number;
  readonly at: number;
}

/** The input of {@link decideAutoscaler}. */
export interface ObservedAutoscaler {
  readonly autoscaler: CachedAutoscaler;
  /** Undefined if it does not exist. */
  readonly target: ScaleTarget | undefined;
  /** The Pods that the target selects. */
  readonly pods: readonly CachedPod[];
  /** Their usage, or why it is unknown. */
  readonly metrics: readonly Cached<PodMetricsObject>[] | { readonly failure: string };
  /** Those of earlier decisions. */
  readonly recommendations: readonly Recommendation[];
}

/** Decides the number of Pods of a target from their CPU usage, as kube-controller-manager does for autoscaling/v1. */
export function decideAutoscaler(
  observed: ObservedAutoscaler,
  now: number,
): Decision & { readonly recommendations: readonly Recommendation[] } {
  const { autoscaler, target } = observed;
  const { minReplicas = 1, maxReplicas, scaleTargetRef } = autoscaler.spec;
  const requeueAfterMs = syncPeriodMs;
  if (target === undefined) {
    const note = `${scaleTargetRef.kind} ${JSON.stringify(scaleTargetRef.name)} not found`;
    return { writes: [warn(autoscaler, "FailedGetScale", note)], recommendations: observed.recommendations, requeueAfterMs };
  }
  const specReplicas = target.object.spec?.replicas ?? 1;
  const recent = observed.recommendations.filter(({ at }) => at > now - stabilizationMs);
  const known = recent.length === 0 ? [{ replicas: specReplicas, at: now }] : recent;
  const finish = (
    desiredReplicas: number,
    reason: string,
    { recommendations = known, percent, events = [] }: Computed = {},
  ): ReturnType<typeof decideAutoscaler> => {
    const isRescale = desiredReplicas !== specReplicas;
    const { lastScaleTime } = autoscaler.status ?? {};
    const scaledAt = isRescale ? formatTime(now) : lastScaleTime;
    const status = {
      currentReplicas: target.object.status?.replicas ?? 0,
      desiredReplicas,
      ...(scaledAt === undefined ? {} : { lastScaleTime: scaledAt }),
      ...(percent === undefined ? {} : { currentCPUUtilizationPercentage: percent }),
    };
    const note = `New size: ${desiredReplicas}; reason: ${reason}`;
    const rescale: readonly Write[] = [
      { kind: "patch", ...target, body: { spec: { replicas: desiredReplicas } }, subresource: "scale" },
      eventWrite(autoscaler, "Normal", "SuccessfulRescale", note),
    ];
    const isChanged = !jsonEquals(autoscaler.status ?? {}, status);
    return {
      writes: [
        ...events,
        ...(isRescale ? rescale : []),
        ...(isChanged
          ? [{ kind: "status", type: HorizontalPodAutoscaler, object: { ...autoscaler, status } as Cached } as const]
          : []),
      ],
      recommendations,
      requeueAfterMs,
    };
  };
  // 0 replicas switch autoscaling off.
  if (specReplicas === 0 && minReplicas !== 0) return finish(0, "");
  if (specReplicas > maxReplicas) return finish(maxReplicas, "Current number of replicas above Spec.MaxReplicas");
  if (specReplicas < minReplicas) return finish(minReplicas, "Current number of replicas below Spec.MinReplicas");
  const computed = compute(observed, specReplicas, now);
  if ("failure" in computed) {
    const note = `failed to get cpu utilization: ${computed.failure}`;
    const all = `invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: ${note}`;
    const events = [warn(autoscaler, "FailedGetResourceMetric", note), warn(autoscaler, "FailedComputeMetricsReplicas", all)];
    return finish(specReplicas, "", { events });
  }
  const recommendations = [...known, { replicas: computed.replicas, at: now }];
  const stable = Math.max(...recommendations.map(({ replicas }) => replicas));
  // The count at most doubles in one step, or grows to 4.
  const limit = Math.min(maxReplicas, Math.max(2 * specReplicas, 4));
  const desired = Math.min(Math.max(stable, minReplicas), limit);
  const reason =
    desired > specReplicas ? "cpu resource utilization (percentage of request) above target" : "All metrics below target";
  return finish(desired, reason, { recommendations, percent: computed.percent });
}

interface Computed {
  readonly recommendations?: readonly Recommendation[];
  readonly percent?: number;
  readonly events?: readonly Write[];
}

function compute(
  { autoscaler, pods, metrics }: ObservedAutoscaler,
  currentReplicas: number,
  now: number,
): ReturnType<typeof replicasForUtilization> {
  if ("failure" in metrics) return metrics;
  const targetPercent = autoscaler.spec.targetCPUUtilizationPercentage ?? defaultTargetPercent;
  return replicasForUtilization({ pods, metrics, currentReplicas, targetPercent }, now);
}

function warn(autoscaler: CachedAutoscaler, reason: string, note: string): Write {
  return eventWrite(autoscaler, "Warning", reason, note);
}
