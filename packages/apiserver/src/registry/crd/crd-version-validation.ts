import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { validateStructuralInSteps } from "@keelson/api-machinery/server";
import { dns1035LabelFaults, forbiddenCause, invalidCause, requiredCause } from "@keelson/api-machinery/validation";
import { listAt, textAt, valueAt } from "../object-fields.ts";
import { columnCauses, scaleCauses, selectableCauses } from "./crd-view-validation.ts";
import type { Causes } from "../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Validates the versions of a CRD. The structure of a schema is not validated again if it equals that of the same version in `old`. */
export function* versionsCauses(crd: Read, old?: Read): Causes {
  const versions = listAt(crd, "spec", "versions");
  const stored = schemasByVersion(old);
  const names = versions.map((version) => textAt(version, "name"));
  for (const [index, version] of versions.entries()) {
    yield;
    const path = `spec.versions[${index}]`;
    const faults = dns1035LabelFaults(textAt(version, "name"));
    // In kube-apiserver the first version is also that of the CRD.
    const name = textAt(version, "name");
    for (const field of faults.length === 0 ? [] : [`${path}.name`, ...(index === 0 && name !== "" ? ["spec.version"] : [])]) {
      yield;
      yield invalidCause(field, name, faults.join(","));
    }
    const warning = valueAt(version, "deprecationWarning");
    if (typeof warning === "string") {
      const isDeprecated = valueAt(version, "deprecated") === true;
      yield* warningFaults(warning, isDeprecated).map((fault) => invalidCause(`${path}.deprecationWarning`, warning, fault));
    }
    const schema = valueAt(version, "schema", "openAPIV3Schema");
    if (!isJsonObject(schema)) yield requiredCause(`${path}.schema.openAPIV3Schema`);
    else {
      const isUnchanged = jsonEquals(schema, stored.get(textAt(version, "name")));
      if (!isUnchanged) yield* structuralCauses(schema, `${path}.schema.openAPIV3Schema`);
      yield* rootCauses(schema, version, `${path}.schema.openAPIV3Schema`);
    }
    yield* scaleCauses(version, `${path}.subresources.scale`);
    yield* columnCauses(version, `${path}.additionalPrinterColumns`);
    yield* selectableCauses(version, `${path}.selectableFields`);
  }
  if (new Set(names).size < names.length) yield invalidCause("spec.versions", names, "must contain unique version names");
  const storage = versions.filter((version) => valueAt(version, "storage") === true);
  if (storage.length !== 1) {
    yield invalidCause("spec.versions", names, "must have exactly one version marked as storage version");
  }
  const storedVersions = listAt(crd, "status", "storedVersions");
  if (storedVersions.length === 0) {
    yield invalidCause("status.storedVersions", null, "must have at least one stored version");
  } else if (storage.length > 1) {
    const last = textAt(storage.at(-1), "name");
    yield invalidCause("status.storedVersions", storedVersions, `must have the storage version ${last}`);
  }
}

/** The schemas of a CRD by the name of their version. */
export function schemasByVersion(crd: Read | undefined): ReadonlyMap<string, Schema> {
  return new Map(
    listAt(crd, "spec", "versions").flatMap((version) => {
      const schema = valueAt(version, "schema", "openAPIV3Schema");
      return isJsonObject(schema) ? [[textAt(version, "name"), schema] as const] : [];
    }),
  );
}

const maxWarningLength = 256;

/** A warning is sent in a header: one short line. */
function warningFaults(warning: string, isDeprecated: boolean): readonly string[] {
  if (!isDeprecated) return ["can only be set for deprecated versions"];
  const faults: string[] = [];
  if (Buffer.byteLength(warning) > maxWarningLength) faults.push(`must be <= ${maxWarningLength} characters long`);
  if (warning === "") faults.push("must not be an empty string");
  const index = [...warning].findIndex((character) => /[\p{C}\p{Zl}\p{Zp}]/u.test(character));
  if (index >= 0) faults.push(`must only contain printable UTF-8 characters; non-printable character found at index ${index}`);
  return faults;
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

function* rootCauses(schema: Readonly<Record<string, unknown>>, version: unknown, path: string): Causes {
  if (schema["nullable"] === true) yield forbiddenCause(`${path}.nullable`, "nullable cannot be true at the root");
  if (valueAt(version, "subresources", "status") === undefined) return;
  if (schema["type"] !== undefined && schema["type"] !== "object") {
    const detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled';
    yield invalidCause(`${path}.type`, schema["type"], detail);
  }
  for (const word of Object.keys(schema)) {
    yield;
    if (rootWords.has(word)) continue;
    const detail = `only ${[...rootWords].join(", ")} are allowed at the root of the schema if the status subresource is enabled`;
    yield invalidCause(path, `{${word}}`, detail);
    return;
  }
}

/** Like kube-apiserver, checks the structure only if the keywords are valid. */
function* structuralCauses(schema: Schema, path: string): Causes {
  const causes = yield* validateStructuralInSteps(schema, path);
  const ofWords = causes.filter(({ message = "" }) => /(?: is not supported| to be structural)$/.test(message));
  yield* ofWords.length > 0 ? ofWords : causes;
}
