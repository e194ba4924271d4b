import { isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import {
  causesOfItems,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  labelValueFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { specOf, text, texts } from "./review-fields.ts";

/** A review needs either a resource or a path. */
export function accessCauses(object: KubernetesObject): StatusCause[] {
  const { resourceAttributes: resource, nonResourceAttributes: path } = specOf(object);
  if (isJsonObject(resource) && isJsonObject(path)) {
    return [nonResourceCause(path, "cannot be specified in combination with resourceAttributes")];
  }
  if (isJsonObject(resource) || isJsonObject(path)) return [];
  const detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
  return [invalidCause("spec.resourceAttributes", null, detail)];
}

/** A review of another user needs a name or a group. */
export function subjectCauses(object: KubernetesObject): StatusCause[] {
  const spec = specOf(object);
  if (text(spec, "user") !== "" || texts(spec, "groups").length > 0) return [];
  return [invalidCause("spec.user", "", "at least one of user or group must be specified")];
}

/** Validates the selectors that limit a list or watch. */
export function selectorCauses(object: KubernetesObject): StatusCause[] {
  const attributes = specOf(object)["resourceAttributes"];
  if (!isJsonObject(attributes)) return [];
  return [
    ...attributeCauses("fieldSelector", attributes["fieldSelector"], fieldRequirement),
    ...attributeCauses("labelSelector", attributes["labelSelector"], labelRequirement),
  ];
}

function attributeCauses(
  name: string,
  selector: unknown,
  requirement: (path: string, value: unknown) => StatusCause[],
): StatusCause[] {
  if (!isJsonObject(selector)) return [];
  const path = `spec.resourceAttributes.${name}`;
  const raw = text(selector, "rawSelector");
  const requirements: readonly unknown[] = Array.isArray(selector["requirements"]) ? selector["requirements"] : [];
  const causes: StatusCause[] = [];
  if (raw !== "" && requirements.length > 0) {
    causes.push(invalidCause(`${path}.rawSelector`, raw, "may not specified at the same time as requirements"));
  }
  if (raw === "" && requirements.length === 0) {
    causes.push(requiredCause(`${path}.requirements`, `when ${path} is specified, requirements or rawSelector is required`));
  }
  return [...causes, ...causesOfItems(requirements, (value, index) => requirement(`${path}.requirements[${index}]`, value))];
}

function fieldRequirement(path: string, requirement: unknown): StatusCause[] {
  const key = isJsonObject(requirement) ? text(requirement, "key") : "";
  return [...(key === "" ? [requiredCause(`${path}.key`, "must be specified")] : []), ...operandCauses(path, requirement)];
}

function labelRequirement(path: string, requirement: unknown): StatusCause[] {
  const key = isJsonObject(requirement) ? text(requirement, "key") : "";
  const values = isJsonObject(requirement) ? texts(requirement, "values") : [];
  return [
    ...operandCauses(path, requirement),
    ...labelKeyFaults(key).map((fault) => invalidCause(`${path}.key`, key, fault)),
    ...causesOfItems(values, (value, index) =>
      labelValueFaults(value).map((fault) => invalidCause(`${path}.values[${index}]`, value, fault)),
    ),
  ];
}

/** An operator that is not known is valid, so that newer clients can ask an older server. */
function operandCauses(path: string, requirement: unknown): StatusCause[] {
  const operator = isJsonObject(requirement) ? text(requirement, "operator") : "";
  const count = isJsonObject(requirement) ? texts(requirement, "values").length : 0;
  if ((operator === "In" || operator === "NotIn") && count === 0) {
    return [requiredCause(`${path}.values`, "must be specified when `operator` is 'In' or 'NotIn'")];
  }
  if ((operator === "Exists" || operator === "DoesNotExist") && count > 0) {
    return [forbiddenCause(`${path}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")];
  }
  return [];
}

/** Reviews are not stored, so their metadata must be empty. Go clients before 1.34 send `creationTimestamp: null`. */
export function metadataCauses({ metadata }: KubernetesObject, detail = "must be empty"): StatusCause[] {
  const { managedFields: _, ...rest } = metadata;
  return Object.values(rest).every((value) => value === null || value === undefined)
    ? []
    : [invalidCause("metadata", metadata, detail)];
}

/** What only a LocalSubjectAccessReview requires: the namespace of its path, and no paths. */
export function localCauses(object: KubernetesObject, namespace: string): StatusCause[] {
  const { resourceAttributes: resource, nonResourceAttributes: path } = specOf(object);
  const { namespace: _, ...others } = object.metadata;
  const causes =
    metadataCauses({ ...object, metadata: others }).length === 0
      ? []
      : metadataCauses(object, "must be empty except for namespace");
  if (isJsonObject(resource) && text(resource, "namespace") !== namespace) {
    const field = "spec.resourceAttributes.namespace";
    causes.push(invalidCause(field, text(resource, "namespace"), "must match metadata.namespace"));
  }
  if (isJsonObject(path)) causes.push(nonResourceCause(path, "disallowed on this kind of request"));
  return causes;
}

/** The attributes as Go prints them, whose internal type has no JSON names. */
function nonResourceCause(path: { readonly [key: string]: unknown }, detail: string): StatusCause {
  return invalidCause("spec.nonResourceAttributes", { Path: text(path, "path"), Verb: text(path, "verb") }, detail);
}
