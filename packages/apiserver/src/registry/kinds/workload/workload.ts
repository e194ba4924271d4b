import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import type { PodTemplate } from "@keelson/api-machinery/kinds";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import { forbiddenCause, invalidCause, notSupportedCause, type StatusCause } from "@keelson/api-machinery/validation";
import { column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { setField, valueAt } from "../../object-fields.ts";
import type { DraftObject, Received, ReceivedObject } from "../../received.ts";
import { defaultPodTemplate } from "../pod/defaults.ts";
import { podTemplateCauses } from "../pod/spec-validation.ts";
import { podWarnings } from "../pod/warnings.ts";
import { labelsText } from "../network/services.ts";

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

/**
 * Validates the selector, the template, and that the selector matches it. Pods of these kinds are always restarted. `template` overrides
 * the Pod template if Pods get more than it contains.
 */
export function workloadCauses(
  object: Workload,
  template: Received<PodTemplate> | undefined = object.spec?.template,
): StatusCause[] {
  const spec = object.spec;
  const causes = [
    ...check.atLeast("spec.replicas", spec?.replicas),
    ...check.atLeast("spec.minReadySeconds", spec?.minReadySeconds),
    ...check.atLeast("spec.revisionHistoryLimit", spec?.revisionHistoryLimit),
    ...selectorCauses(spec),
    ...podTemplateCauses(template, "spec.template"),
  ];
  const restart = spec?.template?.spec?.restartPolicy ?? "";
  if (restart === "OnFailure" || restart === "Never") {
    causes.push(notSupportedCause("spec.template.spec.restartPolicy", restart, ["Always"]));
  }
  const deadline = spec?.template?.spec?.activeDeadlineSeconds;
  if (deadline !== undefined) {
    const detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
    causes.push(forbiddenCause("spec.template.spec.activeDeadlineSeconds", detail));
  }
  return causes;
}

/** Warnings about the Pod template. */
export function templateWarnings(object: Workload): string[] {
  const template = object.spec?.template;
  const { metadata } = (template ?? {}) as { readonly metadata?: KubernetesObject["metadata"] };
  return podWarnings(metadata, template?.spec, "spec.template.spec");
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

/** Validates that the LabelSelector is not empty and matches the template. */
function selectorCauses(spec: Workload["spec"]): StatusCause[] {
  const selector = spec?.selector;
  const causes = check.labelSelector("spec.selector", selector);
  if (isJsonObject(selector) && check.isEmptySelector(selector)) {
    causes.push(invalidCause("spec.selector", selector, "empty selector is invalid for deployment"));
  }
  if (causes.length > 0) return causes;
  const labels = (spec?.template?.metadata?.labels ?? {}) as Readonly<Record<string, string>>;
  if (isJsonObject(selector) && selectorFromObject(selector).matches(labels)) return causes;
  return [...causes, mismatchCause(labels)];
}

/** The cause for a template whose labels do not match the selector. */
export function mismatchCause(labels: Readonly<Record<string, unknown>>): StatusCause {
  return invalidCause("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
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
