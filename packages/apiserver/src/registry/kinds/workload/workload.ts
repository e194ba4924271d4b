import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import type { PodTemplate } from "@keelson/api-machinery/kinds";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import {
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { setField, valueAt } from "../../object-fields.ts";
import type { DraftObject, Received, ReceivedObject } from "../../received.ts";
import { defaultPodTemplate } from "../pod/defaults.ts";
import { podTemplateCauses } from "../pod/validation/spec-validation.ts";
import { labelsText } from "../network/services.ts";
import { type Causes, countCauses } from "../../causes.ts";

/** The fields that the kinds with a Pod template share. */
export interface WorkloadObject extends KubernetesObject {
  spec?: {
    replicas?: number;
    minReadySeconds?: number;
    revisionHistoryLimit?: number;
    selector?: LabelSelector;
    template?: PodTemplate;
  };
}

type Workload = ReceivedObject<WorkloadObject>;

/** An object as strategies read it whose kind has no type. */
export type Read = DeepReadonly<KubernetesObject>;

/** Sets the common defaults of workloads in place: replicas and the Pod template. */
export function defaultWorkload(object: DraftObject<WorkloadObject>, replicas = true): void {
  const spec = object.spec;
  if (spec === undefined) return;
  if (replicas) spec.replicas ??= 1;
  defaultPodTemplate(spec.template);
}

/** Sets the initial status. `fields` are the counters that are always present. */
export function emptyStatus(object: DraftObject<WorkloadObject>, fields: Readonly<Record<string, number>> = {}): void {
  setField(object, "status", { ...fields });
}

/** The kinds that own Pods which run until they are deleted, as messages name them. */
type PodOwner = "DaemonSet" | "ReplicaSet" | "ReplicationController" | "StatefulSet";

/** How the rules of one kind differ from those of the others. */
export interface TemplateRules {
  /** The name of the kind in messages about its selector. */
  readonly kind: "daemonset" | "deployment" | "statefulset";
  /** The kind in the message about `activeDeadlineSeconds`. */
  readonly podOwner: PodOwner;
}

/**
 * Validates the selector, the template, and that the selector matches it. Pods of these kinds are always restarted. `template` overrides
 * the Pod template if Pods get more than it contains.
 */
export function* templateCauses(
  object: Workload,
  { kind, podOwner }: TemplateRules,
  template: Received<PodTemplate> | undefined = object.spec?.template,
): Causes {
  const spec = object.spec;
  const selector = spec?.selector;
  if (selector === undefined && kind !== "daemonset") yield requiredCause("spec.selector");
  const faults = yield* countCauses(check.labelSelector("spec.selector", selector));
  const isEmpty = isJsonObject(selector) && check.isEmptySelector(selector);
  const emptyCause = invalidCause("spec.selector", {}, `empty selector is invalid for ${kind}`);
  if (isEmpty && kind !== "daemonset") yield emptyCause;
  const labels = (spec?.template?.metadata?.labels ?? {}) as Readonly<Record<string, string>>;
  // Nothing matches an absent selector, and an empty one is not compared.
  const isCompared = selector === undefined || kind === "daemonset" || !isEmpty;
  const isMatch = isJsonObject(selector) && faults === 0 && selectorFromObject(selector).matches(labels);
  if (faults === 0 && isCompared && !isMatch) yield mismatchCause(labels);
  if (isEmpty && kind === "daemonset") yield emptyCause;
  if (faults > 0 && kind !== "daemonset") {
    const detail = kind === "statefulset" ? "" : "invalid label selector";
    yield invalidCause("spec.selector", check.shownSelector(selector), detail);
    return;
  }
  yield* podTemplateCauses(template, "spec.template");
  if (kind === "statefulset") {
    // kube-apiserver validates them twice.
    const { metadata } = template ?? {};
    yield* check.labels("spec.template.labels", metadata?.labels);
    yield* check.annotations("spec.template.annotations", metadata?.annotations);
  }
  yield* restartCauses(object, podOwner);
}

/** Validates that the Pods of a template run until they are deleted. */
export function restartCauses(
  { spec }: { readonly spec?: Pick<NonNullable<Workload["spec"]>, "template"> },
  podOwner: PodOwner,
): StatusCause[] {
  const causes: StatusCause[] = [];
  const restart = spec?.template?.spec?.restartPolicy ?? "";
  if (restart !== "Always" && restart !== "") {
    causes.push(notSupportedCause("spec.template.spec.restartPolicy", restart, ["Always"]));
  }
  if (spec?.template?.spec?.activeDeadlineSeconds !== undefined) {
    const detail = `activeDeadlineSeconds in ${podOwner} is not Supported`;
    causes.push(forbiddenCause("spec.template.spec.activeDeadlineSeconds", detail));
  }
  return causes;
}

/** Validates status counters: none is negative, and no part of `parts` exceeds its whole. */
export function statusCauses(
  object: DeepReadonly<KubernetesObject>,
  counters: readonly string[],
  parts: readonly (readonly [string, string])[],
): StatusCause[] {
  const causes = counters.flatMap((field) => check.atLeast(`status.${field}`, valueAt(object, "status", field)));
  for (const [part, whole] of parts) {
    const count = countAt(object, "status", part);
    if (count <= countAt(object, "status", whole)) continue;
    const name = whole === "replicas" ? "status.replicas" : whole;
    causes.push(invalidCause(`status.${part}`, count, `cannot be greater than ${name}`));
  }
  return causes;
}

/** The cause for a template whose labels do not match the selector. */
export function mismatchCause(labels: Readonly<Record<string, unknown>>): StatusCause {
  const names = Object.keys(labels).sort();
  // Go prints an absent map as null, and sorts the keys of others.
  const shown = names.length === 0 ? null : Object.fromEntries(names.map((name) => [name, labels[name]]));
  return invalidCause("spec.template.metadata.labels", shown, "`selector` does not match template `labels`");
}

/** `field is immutable` for each changed `spec.<field>`. */
export function immutableSpecCauses(object: Workload, old: Workload, fields: readonly string[]): StatusCause[] {
  return fields
    .filter((field) => !jsonEquals(valueAt(object, "spec", field), valueAt(old, "spec", field)))
    .map((field) => invalidCause(`spec.${field}`, valueAt(object, "spec", field) ?? null, "field is immutable"));
}

/** The scale subresource of kinds with `spec.replicas`. */
export const replicaScale = {
  specReplicasPath: ".spec.replicas",
  statusReplicasPath: ".status.replicas",
  labelSelectorPath: ".spec.selector",
} as const;

/** `-o wide` columns of kinds with a Pod template. */
export const templateColumns = [
  column("Containers", "Names of the containers.", { wide: true }),
  column("Images", "Images of the containers.", { wide: true }),
];

/** The column of the selector. */
export const selectorColumn = column("Selector", "The selector of its Pods.", { wide: true });

/** Cells of {@link templateColumns}. */
export function templateCells(
  object: ReceivedObject<Pick<WorkloadObject, keyof KubernetesObject> & { spec?: { template?: PodTemplate } }>,
): readonly string[] {
  const containers = object.spec?.template?.spec?.containers ?? [];
  return [
    containers.map((container) => container.name ?? "").join(","),
    containers.map((container) => container.image ?? "").join(","),
  ];
}

/** The cell of {@link selectorColumn}. */
export function selectorCell(selector: unknown): string {
  if (!isJsonObject(selector)) return labelsText({});
  if (!Object.hasOwn(selector, "matchLabels") && !Object.hasOwn(selector, "matchExpressions")) return labelsText(selector);
  return labelSelectorText(selector);
}

function labelSelectorText(selector: Received<LabelSelector>): string {
  const terms = labelsText(selector.matchLabels ?? {});
  const expressions = (selector.matchExpressions ?? []).map((expression) => {
    const values = (expression.values ?? []).join(",");
    const key = expression.key ?? "";
    switch (expression.operator) {
      case "In":
        return `${key} in (${values})`;
      case "NotIn":
        return `${key} notin (${values})`;
      case "Exists":
        return key;
      default:
        return `!${key}`;
    }
  });
  if (expressions.length === 0) return terms;
  return [...(terms === "<none>" ? [] : [terms]), ...expressions].join(",");
}

/** A counter; 0 if it is absent. */
export function countAt(object: unknown, ...path: readonly string[]): number {
  const value = valueAt(object, ...path);
  return typeof value === "number" ? value : 0;
}
