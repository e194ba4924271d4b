import { type DeepReadonly, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { validateStructural } from "@keelson/api-machinery/server";
import {
  dns1035LabelFaults,
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { isConditionTrue } from "./crd-spec.ts";
import { listAt, mapAt, textAt, valueAt } from "./object-fields.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Validates a CustomResourceDefinition (apiextensions/v1) with kube-apiserver's messages. */
export function crdCauses(crd: Read): readonly StatusCause[] {
  const causes: StatusCause[] = [];
  const spec = valueAt(crd, "spec");
  const group = textAt(spec, "group");
  const plural = textAt(spec, "names", "plural");
  const name = crd.metadata.name ?? "";
  if (name !== `${plural}.${group}`)
    causes.push(invalidCause("metadata.name", name, 'must be spec.names.plural+"."+spec.group'));
  causes.push(...approvalCauses(crd, group));

  if (group === "") causes.push(requiredCause("spec.group"));
  else if (dns1123SubdomainFaults(group).length > 0) {
    causes.push(invalidCause("spec.group", group, dns1123SubdomainFaults(group).join(",")));
  } else if (!group.includes(".")) causes.push(invalidCause("spec.group", group, "should be a domain with at least one dot"));

  const scope = textAt(spec, "scope");
  if (scope === "") causes.push(requiredCause("spec.scope"));
  else if (scope !== "Cluster" && scope !== "Namespaced") {
    causes.push(notSupportedCause("spec.scope", scope, ["Cluster", "Namespaced"]));
  }
  if (valueAt(spec, "preserveUnknownFields") === true) {
    causes.push(
      invalidCause(
        "spec.preserveUnknownFields",
        true,
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
      ),
    );
  }
  for (const field of ["plural", "singular", "kind", "listKind"]) {
    if (textAt(spec, "names", field) === "") causes.push(requiredCause(`spec.names.${field}`));
  }
  causes.push(...namesCauses(valueAt(spec, "names"), "spec.names"), ...versionsCauses(crd), ...conversionCauses(spec));
  return causes;
}

/** Rejects changes to immutable fields of a CRD and the removal of stored versions. */
export function crdUpdateCauses(crd: Read, old: Read): readonly StatusCause[] {
  const causes: StatusCause[] = [];
  const immutable = [
    ["group"],
    ["names", "plural"],
    ...(isConditionTrue(old, "Established") ? [["scope"], ["names", "kind"]] : []),
  ];
  for (const path of immutable) {
    const value = textAt(crd, "spec", ...path);
    if (value !== textAt(old, "spec", ...path)) {
      causes.push(invalidCause(["spec", ...path].join("."), value, "field is immutable"));
    }
  }
  const versions = new Set(listAt(crd, "spec", "versions").map((version) => textAt(version, "name")));
  for (const [index, stored] of listAt(crd, "status", "storedVersions").entries()) {
    if (typeof stored === "string" && !versions.has(stored)) {
      causes.push(
        invalidCause(
          `status.storedVersions[${index}]`,
          stored,
          "missing from spec.versions; " +
            `${stored} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data ` +
            `remains persisted in ${stored} and removes ${stored} from status.storedVersions`,
        ),
      );
    }
  }
  return causes;
}

/** Community-owned groups require an approval annotation (KEP-1111). */
function approvalCauses(crd: Read, group: string): StatusCause[] {
  if (!/(^|\.)(k8s\.io|kubernetes\.io)$/.test(group)) return [];
  const path = "metadata.annotations[api-approved.kubernetes.io]";
  const approval = crd.metadata.annotations?.["api-approved.kubernetes.io"] ?? "";
  if (approval === "") {
    return [
      requiredCause(
        path,
        "protected groups must have approval annotation, see https://github.com/kubernetes/enhancements/pull/1111",
      ),
    ];
  }
  return approval.startsWith("unapproved") || URL.canParse(approval)
    ? []
    : [
        invalidCause(
          path,
          approval,
          'protected groups must have approval annotation with either a URL or a reason starting with "unapproved"',
        ),
      ];
}

function namesCauses(names: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const check = (field: string, value: string, prefix = ""): void => {
    const faults = value === "" ? [] : dns1035LabelFaults(prefix === "" ? value : value.toLowerCase());
    if (faults.length > 0) causes.push(invalidCause(`${path}.${field}`, value, prefix + faults.join(",")));
  };
  check("plural", textAt(names, "plural"));
  check("singular", textAt(names, "singular"));
  const mixed = "may have mixed case, but should otherwise match: ";
  check("kind", textAt(names, "kind"), mixed);
  check("listKind", textAt(names, "listKind"), mixed);
  for (const field of ["shortNames", "categories"]) {
    for (const [index, value] of listAt(names, field).entries()) check(`${field}[${index}]`, String(value));
  }
  const kind = textAt(names, "kind");
  if (kind !== "" && kind === textAt(names, "listKind")) {
    causes.push(invalidCause(`${path}.listKind`, kind, "kind and listKind may not be the same"));
  }
  return causes;
}

function versionsCauses(crd: Read): StatusCause[] {
  const causes: StatusCause[] = [];
  const versions = listAt(crd, "spec", "versions");
  const names = versions.map((version) => textAt(version, "name"));
  for (const [index, version] of versions.entries()) {
    const path = `spec.versions[${index}]`;
    const faults = dns1035LabelFaults(textAt(version, "name"));
    if (faults.length > 0) causes.push(invalidCause(`${path}.name`, textAt(version, "name"), faults.join(",")));
    const warning = textAt(version, "deprecationWarning");
    if (warning !== "" && valueAt(version, "deprecated") !== true) {
      causes.push(invalidCause(`${path}.deprecationWarning`, warning, "can only be set for deprecated versions"));
    }
    causes.push(...warningCauses(`${path}.deprecationWarning`, warning));
    const schema = valueAt(version, "schema", "openAPIV3Schema");
    if (!isJsonObject(schema)) causes.push(requiredCause(`${path}.schema.openAPIV3Schema`, "schemas are required"));
    else {
      causes.push(...structuralCauses(schema as Schema, `${path}.schema.openAPIV3Schema`));
      causes.push(...rootCauses(schema, version, `${path}.schema.openAPIV3Schema`));
    }
    causes.push(
      ...scaleCauses(version, `${path}.subresources.scale`),
      ...columnCauses(version, `${path}.additionalPrinterColumns`),
      ...selectableCauses(version, `${path}.selectableFields`),
    );
  }
  if (new Set(names).size < names.length)
    causes.push(invalidCause("spec.versions", names, "must contain unique version names"));
  const storage = versions.filter((version) => valueAt(version, "storage") === true);
  if (storage.length !== 1) {
    causes.push(invalidCause("spec.versions", names, "must have exactly one version marked as storage version"));
  }
  const stored = listAt(crd, "status", "storedVersions");
  if (stored.length === 0) {
    causes.push(invalidCause("status.storedVersions", stored, "must have at least one stored version"));
  } else if (storage.length > 1) {
    const last = textAt(storage.at(-1), "name");
    causes.push(invalidCause("status.storedVersions", stored, `must have the storage version ${last}`));
  }
  return causes;
}

const maxWarningLength = 256;

/** A warning is sent in a header: one short line. */
function warningCauses(field: string, warning: string): StatusCause[] {
  const causes: StatusCause[] = [];
  if (Buffer.byteLength(warning) > maxWarningLength) {
    causes.push(invalidCause(field, warning, `must be <= ${maxWarningLength} UTF-8 bytes long`));
  }
  if (warning !== "" && warning.trim() === "") causes.push(invalidCause(field, warning, "must not be empty"));
  const index = [...warning].findIndex((character) => /[\p{C}\p{Zl}\p{Zp}]/u.test(character));
  if (index >= 0) {
    const detail = `must only contain printable UTF-8 characters; non-printable character found at index ${index}`;
    causes.push(invalidCause(field, warning, detail));
  }
  return causes;
}

/** Keywords allowed at the root of a schema with a status subresource. */
const rootWords = new Set([
  "$schema",
  "description",
  "enum",
  "example",
  "exclusiveMaximum",
  "exclusiveMinimum",
  "externalDocs",
  "format",
  "id",
  "items",
  "maxItems",
  "maxLength",
  "maximum",
  "minItems",
  "minLength",
  "minimum",
  "multipleOf",
  "pattern",
  "properties",
  "required",
  "title",
  "type",
  "uniqueItems",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-validations",
]);

function rootCauses(schema: Readonly<Record<string, unknown>>, version: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  if (schema["nullable"] === true) causes.push(forbiddenCause(`${path}.nullable`, "nullable cannot be true at the root"));
  if (valueAt(version, "subresources", "status") === undefined) return causes;
  for (const word of Object.keys(schema)) {
    if (rootWords.has(word)) continue;
    const detail = `only ${[...rootWords].join(", ")} are allowed at the root of the schema if the status subresource is enabled`;
    return [...causes, invalidCause(path, `{${word}}`, detail)];
  }
  return causes;
}

/** Like kube-apiserver, checks the structure only if the keywords are valid. */
function structuralCauses(schema: Schema, path: string): readonly StatusCause[] {
  const causes = validateStructural(schema, path);
  const ofWords = causes.filter(({ message = "" }) => /(?: is not supported| to be structural)$/.test(message));
  return ofWords.length > 0 ? ofWords : causes;
}

/** A simple JSON path without lists (`.spec.a.b`), as scale and selectable fields use. */
const simplePath = /^(?:\.[A-Za-z_][A-Za-z0-9_-]*)+$/;

function scaleCauses(version: unknown, path: string): StatusCause[] {
  const scale = valueAt(version, "subresources", "scale");
  if (scale === undefined || scale === null) return [];
  const causes: StatusCause[] = [];
  const check = (field: string, roots: readonly string[], isRequired: boolean): void => {
    const value = textAt(scale, field);
    if (value === "") {
      if (isRequired) causes.push(requiredCause(`${path}.${field}`));
    } else if (!simplePath.test(value)) {
      causes.push(invalidCause(`${path}.${field}`, value, "must be a simple json path starting with ."));
    } else if (!roots.some((root) => value.startsWith(`${root}.`))) {
      causes.push(invalidCause(`${path}.${field}`, value, `should be a json path under ${roots.join(" or ")}`));
    }
  };
  check("specReplicasPath", [".spec"], true);
  check("statusReplicasPath", [".status"], true);
  check("labelSelectorPath", [".spec", ".status"], false);
  return causes;
}

const columnTypes = ["boolean", "date", "integer", "number", "string"];
const columnFormats = ["int32", "int64", "float", "double", "byte", "date", "date-time", "password", "name"];

function columnCauses(version: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [index, column] of listAt(version, "additionalPrinterColumns").entries()) {
    const at = `${path}[${index}]`;
    const type = textAt(column, "type");
    const format = textAt(column, "format");
    const jsonPath = textAt(column, "jsonPath");
    if (textAt(column, "name") === "") causes.push(requiredCause(`${at}.name`));
    if (type === "") causes.push(requiredCause(`${at}.type`, `must be one of ${columnTypes.join(",")}`));
    else if (!columnTypes.includes(type))
      causes.push(invalidCause(`${at}.type`, type, `must be one of ${columnTypes.join(",")}`));
    if (format !== "" && !columnFormats.includes(format)) {
      causes.push(invalidCause(`${at}.format`, format, `must be one of ${columnFormats.join(",")}`));
    }
    if (jsonPath === "") causes.push(requiredCause(`${at}.jsonPath`));
    else if (!jsonPath.startsWith(".")) {
      causes.push(invalidCause(`${at}.jsonPath`, jsonPath, "must be a simple json path starting with ."));
    }
  }
  return causes;
}

const maxSelectableFields = 8;

function selectableCauses(version: unknown, path: string): StatusCause[] {
  const fields = listAt(version, "selectableFields");
  const causes: StatusCause[] = [];
  const seen = new Set<string>();
  if (fields.length > maxSelectableFields) {
    causes.push({
      reason: "FieldValueTooMany",
      field: path,
      message: `Too many: ${fields.length}: must have at most ${maxSelectableFields} items`,
    });
  }
  for (const [index, field] of fields.entries()) {
    const jsonPath = textAt(field, "jsonPath");
    const at = `${path}[${index}].jsonPath`;
    if (jsonPath === "") causes.push(requiredCause(at));
    else if (!simplePath.test(jsonPath)) causes.push(invalidCause(at, jsonPath, "must be a simple json path starting with ."));
    else if (jsonPath.startsWith(".metadata.")) causes.push(invalidCause(at, jsonPath, "must not point to fields in metadata"));
    else if (!isSelectable(valueAt(version, "schema", "openAPIV3Schema"), jsonPath)) {
      causes.push(
        invalidCause(at, jsonPath, "must point to a field of type string, boolean or integer. Enum string fields are allowed"),
      );
    }
    if (seen.has(jsonPath))
      causes.push({ reason: "FieldValueDuplicate", field: at, message: `Duplicate value: ${JSON.stringify(jsonPath)}` });
    seen.add(jsonPath);
  }
  return causes;
}

function isSelectable(schema: unknown, jsonPath: string): boolean {
  const steps = jsonPath.slice(1).split(".");
  const found = valueAt(schema, ...steps.flatMap((step) => ["properties", step]));
  return ["string", "boolean", "integer"].includes(textAt(found, "type"));
}

function conversionCauses(spec: unknown): StatusCause[] {
  const conversion = mapAt(spec, "conversion");
  const strategy = textAt(conversion, "strategy");
  const webhook = valueAt(conversion, "webhook");
  if (strategy === "None") {
    return webhook === undefined
      ? []
      : [forbiddenCause("spec.conversion.webhook", "should not be set when strategy is not set to Webhook")];
  }
  if (strategy !== "Webhook") return [notSupportedCause("spec.conversion.strategy", strategy, ["None", "Webhook"])];
  const causes: StatusCause[] = [];
  if (valueAt(webhook, "clientConfig") === undefined) {
    causes.push(requiredCause("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook"));
  }
  if (listAt(webhook, "conversionReviewVersions").length === 0)
    causes.push(requiredCause("spec.conversion.conversionReviewVersions"));
  // Conversion webhooks are not supported: reject the CRD instead of serving unconverted objects.
  return causes.length > 0
    ? causes
    : [
        forbiddenCause(
          "spec.conversion.strategy",
          "this server converts by the strategy None only: give every version the same fields",
        ),
      ];
}
