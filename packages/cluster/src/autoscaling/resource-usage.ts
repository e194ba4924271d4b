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
/** For this long after its start, CPU usage of a Pod counts only once it was ready for a whole window. */
const initializationPeriodMs = 300_000;
/** A Pod that was last ready within this time after its start has never been ready. */
const initialReadinessMs = 30_000;

/** A resource metric and its target. */
export interface ResourceTarget {
  /** `cpu` or `memory`. */
  readonly resource: string;
  /** Default: all containers of a Pod. */
  readonly container?: string | undefined;
  /** Desired usage: in percent of requests, or per Pod in thousandths. */
  readonly target:
    | { readonly kind: "utilization"; readonly percent: number }
    | { readonly kind: "average"; readonly millis: number };
}

/** The input of {@link replicasForUsage}. */
export interface ObservedUsage extends ResourceTarget {
  /** The Pods of the scaled object. */
  readonly pods: readonly CachedPod[];
  readonly metrics: readonly Cached<PodMetricsObject>[];
  readonly currentReplicas: number;
}

/** The result of {@link replicasForUsage}. */
export type UsageReplicas =
  | {
      readonly replicas: number;
      /** Current usage in percent of requests; undefined for a target per Pod. */
      readonly percent?: number;
      /** Current usage per Pod in thousandths. */
      readonly averageMillis: number;
    }
  /** In the words of kube-controller-manager. */
  | { readonly failure: string };

/**
 * How many Pods bring the mean usage of Pods to the target. Where usage is unknown, Pods are assumed to use what makes the change
 * smaller: nothing if more Pods are needed, the target if fewer are.
 */
export function replicasForUsage(observed: ObservedUsage, now: number): UsageReplicas {
  const { pods, currentReplicas, target } = observed;
  if (pods.length === 0) return { failure: "no pods returned by selector while calculating replica count" };
  const { usage, unready, missing } = sortPods(observed, now);
  const requests = target.kind === "utilization" ? requestsOf(observed) : new Map<CachedPod, number>();
  if (typeof requests === "string") return { failure: requests };
  if (usage.size === 0) return { failure: "did not receive metrics for targeted pods (pods might be unready)" };
  const levelOf = (): number => {
    const used = sum([...usage.values()]);
    if (target.kind === "average") return used / usage.size;
    return Math.trunc((used * 100) / sum([...usage.keys()].map((pod) => requests.get(pod) ?? 0)));
  };
  const wanted = target.kind === "average" ? target.millis : target.percent;
  const level = levelOf();
  if (!Number.isFinite(level)) return { failure: "no metrics returned matched known pods" };
  const averageMillis = Math.trunc(sum([...usage.values()]) / usage.size);
  const result = { averageMillis, ...(target.kind === "utilization" ? { percent: level } : {}) };
  const ratio = level / wanted;
  const isScaleUp = ratio > 1;
  if (missing.length === 0 && (unready.length === 0 || !isScaleUp)) {
    return { ...result, replicas: isTolerated(ratio) ? currentReplicas : Math.ceil(ratio * usage.size) };
  }
  for (const pod of missing) {
    if (isScaleUp) usage.set(pod, 0);
    else if (ratio < 1) usage.set(pod, assumedUsage(target, requests.get(pod) ?? 0));
  }
  if (isScaleUp) for (const pod of unready) usage.set(pod, 0);
  const cautious = levelOf() / wanted;
  // The assumptions must not turn the direction.
  const isReversed = isScaleUp ? cautious < 1 : cautious > 1;
  if (isTolerated(cautious) || isReversed) return { ...result, replicas: currentReplicas };
  const replicas = Math.ceil(cautious * usage.size);
  const isOpposite = cautious < 1 ? replicas > currentReplicas : replicas < currentReplicas;
  return { ...result, replicas: isOpposite ? currentReplicas : replicas };
}

/** The usage of a Pod without metrics when fewer Pods are needed. */
function assumedUsage(target: ResourceTarget["target"], request: number): number {
  return target.kind === "average" ? target.millis : (request * Math.max(100, target.percent)) / 100;
}

/** Pods with their usage, those whose usage does not count yet, and those without metrics. */
function sortPods({ pods, metrics, resource, container }: ObservedUsage, now: number) {
  const byName = new Map(metrics.map((object) => [object.metadata.name, object]));
  const usage = new Map<CachedPod, number>();
  const unready: CachedPod[] = [];
  const missing: CachedPod[] = [];
  for (const pod of pods) {
    if (isPodTerminating(pod) || pod.status?.phase === "Failed") continue;
    const metric = byName.get(pod.metadata.name);
    if (pod.status?.phase === "Pending") unready.push(pod);
    else if (metric === undefined) missing.push(pod);
    // Memory is meaningful from the start.
    else if (resource === "cpu" && isUnready(pod, metric, now)) unready.push(pod);
    else {
      const counted = metric.containers.filter(({ name }) => container === undefined || name === container);
      usage.set(pod, sum(counted.map((each) => quantityToMillis(each.usage[resource] ?? 0))));
    }
  }
  return { usage, unready, missing };
}

function requestsOf({ pods, resource, container }: ObservedUsage): Map<CachedPod, number> | string {
  const requests = new Map<CachedPod, number>();
  for (const pod of pods) {
    const request = requestOf(pod, resource, container);
    if (typeof request === "string") return request;
    requests.set(pod, request);
  }
  return requests;
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

/** The request of a Pod in thousandths; text if a container has none. */
function requestOf(pod: CachedPod, resource: string, container: string | undefined): number | string {
  let total = 0;
  for (const { name, resources } of pod.spec?.containers ?? []) {
    if (container !== undefined && name !== container) continue;
    const request = resources?.requests?.[resource];
    if (request === undefined) return `missing request for ${resource} in container ${name} of Pod ${pod.metadata.name}`;
    total += quantityToMillis(request);
  }
  return total;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
