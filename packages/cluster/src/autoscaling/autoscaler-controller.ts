import { jsonEquals, parseApiVersion, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Deployment, HorizontalPodAutoscaler, Pod, ReplicaSet, StatefulSet } from "@keelson/api-machinery/kinds";
import { type LabelSelector, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";
import { type ControllerDefinition, defineController, type ReconcileContext, readOf } from "@keelson/controller";
import { ReplicationController } from "../replication-controller/replication-controller.ts";
import { applyDecision } from "../workload/perform-writes.ts";
import {
  type CachedAutoscaler,
  decideAutoscaler,
  type ObservedAutoscaler,
  type Recommendation,
  type ScaleTarget,
} from "./autoscaler-decision.ts";
import { PodMetrics } from "./cpu-utilization.ts";

const scaledTypes = [Deployment, ReplicaSet, StatefulSet, ReplicationController] as readonly ResourceType[];

/** Creates the controller that scales workloads by the CPU usage of their Pods. Its earlier recommendations belong to it. */
export function createAutoscaler(): ControllerDefinition {
  /** By uid of the HorizontalPodAutoscaler. */
  const recommendations = new Map<string, readonly Recommendation[]>();
  return defineController({
    name: "horizontalpodautoscaler",
    for: HorizontalPodAutoscaler,
    // Usage is compared periodically, not with every change.
    predicates: [({ type, object, old }) => type !== "update" || !jsonEquals(object.spec, old?.spec)],
    reads: [...scaledTypes.map((type) => readOf(type)), readOf(Pod)],
    maxConcurrentReconciles: 5,
    async reconcile(request, context) {
      const { cache, clock } = context;
      const autoscaler = cache.get(HorizontalPodAutoscaler, request);
      if (autoscaler === undefined || autoscaler.metadata.deletionTimestamp !== undefined) {
        forgetDeleted(recommendations, context);
        return undefined;
      }
      const { uid } = autoscaler.metadata;
      const target = targetOf(autoscaler, context);
      const observed = { autoscaler, target, ...(await usageOf(autoscaler, target, context)) };
      const decision = decideAutoscaler({ ...observed, recommendations: recommendations.get(uid) ?? [] }, clock.now());
      recommendations.set(uid, decision.recommendations);
      return await applyDecision(decision, context);
    },
  });
}

function forgetDeleted(recommendations: Map<string, unknown>, { cache }: ReconcileContext): void {
  const uids = new Set(cache.list(HorizontalPodAutoscaler).map(({ metadata }) => metadata.uid));
  for (const uid of recommendations.keys()) if (!uids.has(uid)) recommendations.delete(uid);
}

function targetOf({ metadata, spec }: CachedAutoscaler, { cache }: ReconcileContext): ScaleTarget | undefined {
  const { apiVersion = "v1", kind, name } = spec.scaleTargetRef;
  const { group } = parseApiVersion(apiVersion);
  const type = scaledTypes.find((scaled) => scaled.kind === kind && scaled.group === group);
  const object = type === undefined ? undefined : cache.get(type, { namespace: metadata.namespace, name });
  return type === undefined || object === undefined ? undefined : { type, object };
}

async function usageOf(
  { metadata: { namespace } }: CachedAutoscaler,
  target: ScaleTarget | undefined,
  { cache, client, signal }: ReconcileContext,
): Promise<Pick<ObservedAutoscaler, "pods" | "metrics">> {
  if (target === undefined) return { pods: [], metrics: [] };
  const selector = selectorOf(target);
  const selects = ({
    metadata: { labels },
  }: {
    readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  }): boolean => selector.matches(labels);
  const pods = cache.list(Pod, { namespace }).filter(selects);
  try {
    const { items } = await client.list(PodMetrics, { namespace, signal });
    return { pods, metrics: items.filter(selects) };
  } catch (error) {
    if (signal.aborted) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    return {
      pods,
      metrics: {
        failure: `unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: ${reason}`,
      },
    };
  }
}

function selectorOf({ type, object }: ScaleTarget): Selector {
  const { selector } = (object as KubernetesObject & { spec?: { selector?: unknown } }).spec ?? {};
  return selectorFromObject(
    (type === ReplicationController ? { matchLabels: selector } : selector) as LabelSelector | undefined,
  );
}
