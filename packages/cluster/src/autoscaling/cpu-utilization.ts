import { findCondition, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { quantityToMillis } from "@keelson/api-machinery/quantity";
import { parseTime } from "@keelson/api-machinery/time";
import { type CachedPod, isPodTerminating } from "../workload/pod-state.ts";
import type { Cached } from "../workload/write.ts";

/** metrics.k8s.io/v1beta1 PodMetrics. */
export interface PodMetricsObject extends KubernetesObject {
  timestamp: string;
  window: string;
  containers: { name: string; usage: Record<string, string> }[];
}

/** The resource of {@link PodMetricsObject}. */
export const PodMetrics: ResourceType<PodMetricsObject> = {
  group: "metrics.k8s.io",
  version: "v1beta1",
  kind: "PodMetrics",
  plural: "pods",
  scope: "Namespaced",
};

/** How far from the target usage may be, as in kube-controller-manager. */
const tolerance = 0.1;
/** For this long after its start, usage of a Pod counts only once it was ready for a whole window. */
const initializationPeriodMs = 300_000;
/** A Pod that was last ready within this time after its start has never been ready. */
const initialReadinessMs = 30_000;

/** The input of {@link replicasForUtilization}. */
export interface ObservedUsage {
  /** The Pods of the scaled object. */
  readonly pods: readonly CachedPod[];
  readonly metrics: readonly Cached<PodMetricsObject>[];
  readonly currentReplicas: number;
  /** Desired CPU usage in percent of requests. */
  readonly targetPercent: number;
}

/** The result of {@link replicasForUtilization}. */
export type UtilizationReplicas =
  | { readonly replicas: number /** Current CPU usage in percent of requests. */; readonly percent: number }
  /** In the words of kube-controller-manager. */
  | { readonly failure: string };

/**
 * How many Pods bring the mean CPU usage of Pods, in percent of their requests, to the target. Where usage is unknown, Pods are assumed
 * to use what makes the change smaller: nothing if more Pods are needed, the target if fewer are.
 */
export function replicasForUtilization(observed: ObservedUsage, now: number): UtilizationReplicas {
  const { pods, currentReplicas, targetPercent } = observed;
  if (pods.length === 0) return { failure: "no pods returned by selector while calculating replica count" };
  const metrics = new Map(observed.metrics.map((object) => [object.metadata.name, object]));
  const usage = new Map<CachedPod, number>();
  const unready: CachedPod[] = [];
  const missing: CachedPod[] = [];
  for (const pod of pods) {
    if (isPodTerminating(pod) || pod.status?.phase === "Failed") continue;
    const metric = metrics.get(pod.metadata.name);
    if (pod.status?.phase === "Pending") unready.push(pod);
    else if (metric === undefined) missing.push(pod);
    else if (isUnready(pod, metric, now)) unready.push(pod);
    else usage.set(pod, sum(metric.containers.map((container) => quantityToMillis(container.usage["cpu"] ?? 0))));
  }
  const requests = new Map<CachedPod, number>();
  for (const pod of pods) {
    const request = requestOf(pod);
    if (typeof request === "string") return { failure: request };
    requests.set(pod, request);
  }
  if (usage.size === 0) return { failure: "did not receive metrics for targeted pods (pods might be unready)" };
  const percentOf = (): number => {
    const requested = sum([...usage.keys()].map((pod) => requests.get(pod) ?? 0));
    return Math.trunc((sum([...usage.values()]) * 100) / requested);
  };
  const percent = percentOf();
  if (!Number.isFinite(percent)) return { failure: "no metrics returned matched known pods" };
  const ratio = percent / targetPercent;
  const isScaleUp = ratio > 1;
  if (missing.length === 0 && (unready.length === 0 || !isScaleUp)) {
    return { percent, replicas: isTolerated(ratio) ? currentReplicas : Math.ceil(ratio * usage.size) };
  }
  for (const pod of missing) {
    if (isScaleUp) usage.set(pod, 0);
    else if (ratio < 1) usage.set(pod, ((requests.get(pod) ?? 0) * Math.max(100, targetPercent)) / 100);
  }
  if (isScaleUp) for (const pod of unready) usage.set(pod, 0);
  const cautious = percentOf() / targetPercent;
  // The assumptions must not turn the direction.
  const isReversed = isScaleUp ? cautious < 1 : cautious > 1;
  if (isTolerated(cautious) || isReversed) return { percent, replicas: currentReplicas };
  const replicas = Math.ceil(cautious * usage.size);
  const isOpposite = cautious < 1 ? replicas > currentReplicas : replicas < currentReplicas;
  return { percent, replicas: isOpposite ? currentReplicas : replicas };
}

function isTolerated(ratio: number): boolean {
  return 1 - tolerance <= ratio && ratio <= 1 + tolerance;
}

/** Whether the usage of a Pod is that of its start. */
function isUnready(pod: CachedPod, metric: Cached<PodMetricsObject>, now: number): boolean {
  const startedAt = parseTime(pod.status?.startTime ?? "");
  const ready = findCondition(pod.status?.conditions ?? [], "Ready");
  const changedAt = parseTime(ready?.lastTransitionTime ?? "");
  if (ready === undefined || startedAt === undefined || changedAt === undefined) return true;
  if (startedAt + initializationPeriodMs <= now) {
    return ready.status === "False" && startedAt + initialReadinessMs > changedAt;
  }
  const measuredAt = parseTime(metric.timestamp) ?? 0;
  return ready.status === "False" || measuredAt < changedAt + Number.parseFloat(metric.window) * 1_000;
}

/** The CPU request of a Pod in thousandths of a core; text if a container has none. */
function requestOf(pod: CachedPod): number | string {
  let total = 0;
  for (const { name, resources } of pod.spec?.containers ?? []) {
    const request = resources?.requests?.["cpu"];
    if (request === undefined) return `missing request for cpu in container ${name} of Pod ${pod.metadata.name}`;
    total += quantityToMillis(request);
  }
  return total;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
