import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import { forbiddenCause, invalidCause, notSupportedCause, type StatusCause } from "@keelson/api-machinery/validation";
import { column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { listAt, mapAt, objectAt, setField, textAt, valueAt } from "../../object-fields.ts";
import { defaultPodTemplate } from "../pod/defaults.ts";
import { podTemplateCauses } from "../pod/spec-validation.ts";
import { podWarnings } from "../pod/warnings.ts";
import { labelsText } from "../network/services.ts";

/** An object as strategies read it. */
export type Read = DeepReadonly<KubernetesObject>;

/** Sets the common defaults of workloads in place: replicas and the Pod template. */
export function defaultWorkload(object: KubernetesObject, replicas = true): void {
  const spec = objectAt(object, "spec");
  if (spec === undefined) return;
  if (replicas) spec["replicas"] ??= 1;
  defaultPodTemplate(objectAt(spec, "template"));
}

/** Sets the initial status. `fields` are the counters that are always present. */
export function emptyStatus(object: KubernetesObject, fields: Readonly<Record<string, number>> = {}): void {
  setField(object, "status", { ...fields });
}

/**
 * Validates the selector, the template, and that the selector matches it. Pods of these kinds are always restarted. `template` overrides
 * the Pod template if Pods get more than it contains.
 */
export function workloadCauses(object: Read, template: unknown = valueAt(object, "spec", "template")): StatusCause[] {
  const spec = valueAt(object, "spec");
  const causes = [
    ...check.atLeast("spec.replicas", valueAt(spec, "replicas")),
    ...check.atLeast("spec.minReadySeconds", valueAt(spec, "minReadySeconds")),
    ...check.atLeast("spec.revisionHistoryLimit", valueAt(spec, "revisionHistoryLimit")),
    ...selectorCauses(spec),
    ...podTemplateCauses(template, "spec.template"),
  ];
  const restart = textAt(spec, "template", "spec", "restartPolicy");
  if (restart === "OnFailure" || restart === "Never") {
    causes.push(notSupportedCause("spec.template.spec.restartPolicy", restart, ["Always"]));
  }
  const deadline = valueAt(spec, "template", "spec", "activeDeadlineSeconds");
  if (deadline !== undefined) {
    const detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
    causes.push(forbiddenCause("spec.template.spec.activeDeadlineSeconds", detail));
  }
  return causes;
}

/** Warnings about the Pod template. */
export function templateWarnings(object: Read): string[] {
  const template = objectAt(object, "spec", "template");
  const { metadata } = (template ?? {}) as { readonly metadata?: KubernetesObject["metadata"] };
  return podWarnings(metadata, template?.["spec"], "spec.template.spec");
}

/** Validates status counters: none is negative, and no part of `parts` exceeds its whole. */
export function statusCauses(
  object: Read,
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
function selectorCauses(spec: unknown): StatusCause[] {
  const selector = valueAt(spec, "selector");
  const causes = check.labelSelector("spec.selector", selector);
  if (isJsonObject(selector) && check.isEmptySelector(selector)) {
    causes.push(invalidCause("spec.selector", selector, "empty selector is invalid for deployment"));
  }
  if (causes.length > 0) return causes;
  const labels = mapAt(spec, "template", "metadata", "labels") as Readonly<Record<string, string>>;
  if (isJsonObject(selector) && selectorFromObject(selector).matches(labels)) return causes;
  return [...causes, mismatchCause(labels)];
}

/** The cause for a template whose labels do not match the selector. */
export function mismatchCause(labels: Readonly<Record<string, unknown>>): StatusCause {
  return invalidCause("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
}

/** `field is immutable` for each changed `spec.<field>`. */
export function immutableSpecCauses(object: Read, old: Read, fields: readonly string[]): StatusCause[] {
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
export function templateCells(object: Read): readonly string[] {
  const containers = listAt(object, "spec", "template", "spec", "containers");
  return [
    containers.map((container) => textAt(container, "name")).join(","),
    containers.map((container) => textAt(container, "image")).join(","),
  ];
}

/** The cell of {@link selectorColumn}. */
export function selectorCell(selector: unknown): string {
  const isPlain =
    isJsonObject(selector) && !Object.hasOwn(selector, "matchLabels") && !Object.hasOwn(selector, "matchExpressions");
  if (isPlain) return labelsText(selector);
  const terms = labelsText(mapAt(selector, "matchLabels"));
  const expressions = listAt(selector, "matchExpressions").map((expression) => {
    const values = listAt(expression, "values").join(",");
    const key = textAt(expression, "key");
    switch (textAt(expression, "operator")) {
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
