import { jsonEquals, parseApiVersion, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Deployment, HorizontalPodAutoscaler, Pod, ReplicaSet, StatefulSet } from "@keelson/api-machinery/kinds";
import { type LabelSelector, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";
import { type ControllerDefinition, defineController, type ReconcileContext, readOf } from "@keelson/controller";
import { ReplicationController } from "../replication-controller/replication-controller.ts";
import { applyDecision } from "../workload/perform-writes.ts";
import { type CachedAutoscaler, decideAutoscaler, type ScaleTarget } from "./autoscaler-decision.ts";
import type { ObservedMetrics } from "./metric-proposals.ts";
import { PodMetrics } from "./resource-usage.ts";
import type { ScalingHistory } from "./scaling-limits.ts";

const scaledTypes = [Deployment, ReplicaSet, StatefulSet, ReplicationController] as readonly ResourceType[];

/** Creates the controller that scales workloads by the resource usage of their Pods. What it remembers of earlier decisions belongs to it. */
export function createAutoscaler(): ControllerDefinition {
  /** By uid of the HorizontalPodAutoscaler. */
  const histories = new Map<string, ScalingHistory>();
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
        forgetDeleted(histories, context);
        return undefined;
      }
      const { uid } = autoscaler.metadata;
      const target = targetOf(autoscaler, context);
      const observed = { autoscaler, target, ...(await usageOf(autoscaler, target, context)) };
      const history = histories.get(uid) ?? { recommendations: [], events: [] };
      const decision = decideAutoscaler({ ...observed, history }, clock.now());
      histories.set(uid, decision.history);
      return await applyDecision(decision, context);
    },
  });
}

function forgetDeleted(histories: Map<string, unknown>, { cache }: ReconcileContext): void {
  const uids = new Set(cache.list(HorizontalPodAutoscaler).map(({ metadata }) => metadata.uid));
  for (const uid of histories.keys()) if (!uids.has(uid)) histories.delete(uid);
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
): Promise<ObservedMetrics> {
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
        failure: `unable to get metrics for resource: unable to fetch metrics from resource metrics API: ${reason}`,
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
