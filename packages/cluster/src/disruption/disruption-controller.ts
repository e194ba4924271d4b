import { type DeepReadonly, parseApiVersion, type ResourceType } from "@keelson/api-machinery";
import {
  Deployment,
  Pod,
  PodDisruptionBudget,
  type PodDisruptionBudgetObject,
  ReplicaSet,
  StatefulSet,
} from "@keelson/api-machinery/kinds";
import { type LabelSelector, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";
import { type Cache, type ControllerDefinition, defineController, type Request, watchOf } from "@keelson/controller";
import { applyDecision } from "../workload/perform-writes.ts";
import { decideDisruption, type ObservedBudget, type ScaledObject } from "./disruption-decision.ts";

const scaledTypes: readonly ResourceType<ScaledObject>[] = [Deployment, ReplicaSet, StatefulSet];

/** Maintains the status of PodDisruptionBudgets, which decides whether Pods may be evicted (`kubectl drain`). */
export const disruptionController: ControllerDefinition = defineController({
  name: "disruption",
  for: PodDisruptionBudget,
  watches: [
    watchOf(Pod, ({ metadata: { namespace, labels } }, { cache }) => budgetsOf(cache, namespace, labels)),
    ...scaledTypes.map((type) =>
      watchOf(
        type,
        ({ metadata: { namespace }, spec }, { cache }) => budgetsOf(cache, namespace, spec.template?.metadata?.labels),
        // Status changes do not affect budgets.
        [({ type: change, object, old }) => change !== "update" || object.metadata.generation !== old?.metadata.generation],
      ),
    ),
  ],
  async reconcile(request, context) {
    const { cache, clock } = context;
    const budget = cache.get(PodDisruptionBudget, request);
    if (budget === undefined || budget.metadata.deletionTimestamp !== undefined) return undefined;
    const selector = selectorOf(budget);
    const pods = cache.list(Pod, { namespace: request.namespace }).filter(({ metadata }) => selector.matches(metadata.labels));
    const scaledBy: ObservedBudget["scaledBy"] = ({ apiVersion, kind, name, uid }) => {
      const { group } = parseApiVersion(apiVersion);
      for (const type of scaledTypes) {
        if (type.kind !== kind || type.group !== group) continue;
        const found = cache.get(type, { namespace: request.namespace, name });
        return found?.metadata.uid === uid ? found : undefined;
      }
      return undefined;
    };
    return applyDecision(decideDisruption({ budget, pods, scaledBy }, clock.now()), context);
  },
});

/** The budgets that select these labels. */
function budgetsOf(
  cache: Cache,
  namespace: string | undefined,
  labels: DeepReadonly<Record<string, string>> | undefined,
): readonly Request[] {
  return cache
    .list(PodDisruptionBudget, { namespace })
    .filter((budget) => selectorOf(budget).matches(labels))
    .map(({ metadata: { name } }) => ({ namespace, name }));
}

function selectorOf({ spec }: DeepReadonly<PodDisruptionBudgetObject>): Selector {
  return selectorFromObject(spec?.selector as LabelSelector | undefined);
}
