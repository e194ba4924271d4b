import type { NodeObject, PodObject } from "../kinds/workload-objects.ts";
import { isConditionTrue } from "../objects/conditions.ts";
import type { DeepReadonly } from "../objects/json.ts";
import { createSelector, type SelectorOperator } from "../selectors/label-selector.ts";

interface NodeTerm {
  readonly matchExpressions?: readonly NodeRequirement[];
  readonly matchFields?: readonly NodeRequirement[];
}
interface NodeRequirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}
/** A taint of a node. */
export type Taint = { readonly key: string; readonly value?: string; readonly effect: string };

type Toleration = NonNullable<DeepReadonly<PodObject>["spec"]["tolerations"]>[number];

const operators: Readonly<Record<string, SelectorOperator>> = {
  In: "in",
  NotIn: "notin",
  Exists: "exists",
  DoesNotExist: "!",
  Gt: "gt",
  Lt: "lt",
};

/** Why a Pod may not run on a node, regardless of its load: a cordon, a taint or the Pod's selectors. Undefined if it may. */
export function exclusionOf(pod: Pick<DeepReadonly<PodObject>, "spec">, node: DeepReadonly<NodeObject>): string | undefined {
  const taints: readonly Taint[] = [
    ...(node.spec?.taints ?? []),
    // Stands for the node lifecycle controller's taint.
    ...(isReady(node) ? [] : [{ key: "node.kubernetes.io/not-ready", effect: "NoSchedule" }]),
  ];
  const unschedulable = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };
  if (node.spec?.unschedulable && !isTolerated(pod, unschedulable)) return "node(s) were unschedulable";
  const taint = taints.find((one) => one.effect !== "PreferNoSchedule" && !isTolerated(pod, one));
  if (taint !== undefined) return `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`;
  return isSelected(pod, node) ? undefined : "node(s) didn't match Pod's node affinity/selector";
}

function isReady(node: DeepReadonly<NodeObject>): boolean {
  return isConditionTrue(node.status?.conditions ?? [], "Ready");
}

/** Whether a Pod tolerates a taint. */
export function isTolerated(pod: Pick<DeepReadonly<PodObject>, "spec">, taint: Taint): boolean {
  return tolerationOf(pod, taint) !== undefined;
}

/** The first toleration of a Pod that matches a taint. */
export function tolerationOf({ spec }: Pick<DeepReadonly<PodObject>, "spec">, taint: Taint): Toleration | undefined {
  return (spec.tolerations ?? []).find(({ key = "", operator = "Equal", value = "", effect = "" }) => {
    if (effect !== "" && effect !== taint.effect) return false;
    if (key === "") return operator === "Exists";
    return key === taint.key && (operator === "Exists" || value === (taint.value ?? ""));
  });
}

/** Whether a node matches a Pod's node selector and required node affinity. */
export function isSelected({ spec }: Pick<DeepReadonly<PodObject>, "spec">, node: DeepReadonly<NodeObject>): boolean {
  const labels = node.metadata.labels ?? {};
  if (!Object.entries(spec.nodeSelector ?? {}).every(([key, value]) => labels[key] === value)) return false;
  const affinity = spec.affinity as
    | { nodeAffinity?: { requiredDuringSchedulingIgnoredDuringExecution?: { nodeSelectorTerms?: readonly NodeTerm[] } } }
    | undefined;
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  // One of the terms must match; an empty term matches no node.
  return terms === undefined || terms.some((term) => holds(term, labels, { "metadata.name": node.metadata.name ?? "" }));
}

function holds(term: NodeTerm, labels: Readonly<Record<string, string>>, fields: Readonly<Record<string, string>>): boolean {
  const { matchExpressions = [], matchFields = [] } = term;
  if (matchExpressions.length + matchFields.length === 0) return false;
  return matches(matchExpressions, labels) && matches(matchFields, fields);
}

function matches(requirements: readonly NodeRequirement[], values: Readonly<Record<string, string>>): boolean {
  const known = requirements.flatMap(({ key, operator, values: wanted = [] }) => {
    const own = operators[operator];
    return own === undefined ? [] : [{ key, operator: own, values: wanted }];
  });
  return known.length === requirements.length && createSelector(known).matches(values);
}
