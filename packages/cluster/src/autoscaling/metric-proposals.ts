import { quantityToMillis } from "@keelson/api-machinery/quantity";
import type { MetricSpec } from "@keelson/api-machinery/kinds";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Cached } from "../workload/write.ts";
import { type PodMetricsObject, replicasForUsage, type ResourceTarget } from "./resource-usage.ts";

/** What metrics are computed from. */
export interface ObservedMetrics {
  readonly pods: readonly CachedPod[];
  /** The usage of the Pods, or why it is unknown. */
  readonly metrics: readonly Cached<PodMetricsObject>[] | { readonly failure: string };
}

/** The number of replicas that one metric calls for, or why it cannot be computed. */
export type Proposal =
  | {
      readonly replicas: number;
      /** `cpu resource utilization (percentage of request)`. */
      readonly name: string;
      /** An autoscaling/v2 MetricStatus. */
      readonly status: object;
    }
  | {
      /** The reason of the event and the condition: `FailedGetResourceMetric`. */
      readonly reason: string;
      readonly failure: string;
      /** The failure as part of that of all metrics. */
      readonly summary: string;
    };

type ResourceSource = NonNullable<MetricSpec["resource"]> & { readonly container?: string };

/** Computes the proposal of a metric. Only `Resource` and `ContainerResource` have a source here. */
export function proposalOf(
  metric: DeepReadonly<MetricSpec>,
  observed: ObservedMetrics,
  currentReplicas: number,
  now: number,
): Proposal {
  const source: DeepReadonly<ResourceSource> | undefined =
    metric.type === "Resource" ? metric.resource : metric.type === "ContainerResource" ? metric.containerResource : undefined;
  if (source === undefined) return unsupported(metric.type);
  const resource = source.name;
  const { container } = source;
  const { averageUtilization, averageValue } = source.target;
  const target: ResourceTarget["target"] =
    averageValue === undefined
      ? { kind: "utilization", percent: averageUtilization ?? 80 }
      : { kind: "average", millis: quantityToMillis(averageValue) };
  const computed =
    "failure" in observed.metrics
      ? observed.metrics
      : replicasForUsage({ ...observed, metrics: observed.metrics, currentReplicas, resource, container, target }, now);
  const kind = container === undefined ? "resource" : "container resource";
  if ("failure" in computed) {
    const what = target.kind === "utilization" ? `${resource} utilization` : `${resource} usage`;
    const failure = `failed to get ${what}: ${computed.failure}`;
    const reason = container === undefined ? "FailedGetResourceMetric" : "FailedGetContainerResourceMetric";
    return { reason, failure, summary: `failed to get ${resource} ${kind} metric value: ${failure}` };
  }
  const current = {
    ...(computed.percent === undefined ? {} : { averageUtilization: computed.percent }),
    averageValue: amount(computed.averageMillis, resource),
  };
  const field = container === undefined ? "resource" : "containerResource";
  return {
    replicas: computed.replicas,
    name: `${resource} ${kind}${target.kind === "utilization" ? " utilization (percentage of request)" : ""}`,
    status: { type: metric.type, [field]: { name: resource, ...(container === undefined ? {} : { container }), current } },
  };
}

/** The words of kube-controller-manager in a cluster without these metrics APIs. */
function unsupported(type: string): Proposal {
  const kind = type === "External" ? "external" : "custom";
  const what = type === "Object" ? "object" : type === "Pods" ? "pods" : "external";
  const failure = `unable to get ${what} metric: no ${kind} metrics API (${kind}.metrics.k8s.io) registered`;
  return { reason: `FailedGet${type}Metric`, failure, summary: `failed to get ${what} metric value: ${failure}` };
}

/** CPU in thousandths, other resources whole. */
function amount(millis: number, resource: string): string {
  return resource === "cpu" ? `${millis}m` : String(Math.trunc(millis / 1000));
}
