import { invalidCause, requiredCause, type StatusCause, tooManyCause } from "@keelson/api-machinery/validation";
import { listAt, textAt, valueAt } from "../object-fields.ts";
import type { Causes } from "../causes.ts";

/** A simple JSON path without lists (`.spec.a.b`), as selectable fields use. */
const simplePath = /^(?:\.[A-Za-z_][A-Za-z0-9_-]*)+$/;

/** Validates the scale subresource of a CRD version at `path`. */
export function scaleCauses(version: unknown, path: string): StatusCause[] {
  const scale = valueAt(version, "subresources", "scale");
  if (scale === undefined || scale === null) return [];
  const causes: StatusCause[] = [];
  const check = (field: string, roots: readonly string[], isRequired: boolean): void => {
    const value = textAt(scale, field);
    if (value === "") {
      if (isRequired) causes.push(requiredCause(`${path}.${field}`));
    } else if (!value.startsWith(".")) {
      causes.push(invalidCause(`${path}.${field}`, value, "must be a simple json path starting with ."));
    } else if (!roots.some((root) => value.startsWith(`${root}.`))) {
      const under = roots.length > 1 ? `either ${roots.join(" or ")}` : roots[0];
      causes.push(invalidCause(`${path}.${field}`, value, `should be a json path under ${under}`));
    }
  };
  check("specReplicasPath", [".spec"], true);
  check("statusReplicasPath", [".status"], true);
  check("labelSelectorPath", [".spec", ".status"], false);
  return causes;
}

const columnTypes = ["boolean", "date", "integer", "number", "string"];
const columnFormats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/** Validates the printer columns of a CRD version at `path`. */
export function* columnCauses(version: unknown, path: string): Causes {
  for (const [index, column] of listAt(version, "additionalPrinterColumns").entries()) {
    yield;
    const at = `${path}[${index}]`;
    const type = textAt(column, "type");
    const format = textAt(column, "format");
    const jsonPath = textAt(column, "jsonPath");
    if (textAt(column, "name") === "") yield requiredCause(`${at}.name`);
    if (type === "") yield requiredCause(`${at}.type`, `must be one of ${columnTypes.join(",")}`);
    else if (!columnTypes.includes(type)) yield invalidCause(`${at}.type`, type, `must be one of ${columnTypes.join(",")}`);
    if (format !== "" && !columnFormats.includes(format)) {
      yield invalidCause(`${at}.format`, format, `must be one of ${columnFormats.join(",")}`);
    }
    if (jsonPath === "") yield requiredCause(`${at}.jsonPath`);
    else if (!jsonPath.startsWith(".")) {
      yield invalidCause(`${at}.jsonPath`, jsonPath, "must be a simple json path starting with .");
    }
  }
}

const maxSelectableFields = 8;

/** Validates the selectable fields of a CRD version at `path`. */
export function* selectableCauses(version: unknown, path: string): Causes {
  const fields = listAt(version, "selectableFields");

  const seen = new Set<string>();
  for (const [index, field] of fields.entries()) {
    yield;
    const jsonPath = textAt(field, "jsonPath");
    const at = `${path}[${index}].jsonPath`;
    if (jsonPath === "") yield requiredCause(at);
    else {
      const fault = selectableFault(valueAt(version, "schema", "openAPIV3Schema"), jsonPath);
      if (fault !== undefined) yield invalidCause(at, jsonPath, fault);
    }
    if (seen.has(jsonPath))
      yield { reason: "FieldValueDuplicate", field: at, message: `Duplicate value: ${JSON.stringify(jsonPath)}` };
    seen.add(jsonPath);
  }
  if (seen.size > maxSelectableFields) yield tooManyCause(path, seen.size, maxSelectableFields);
}

function selectableFault(schema: unknown, jsonPath: string): string | undefined {
  if (!jsonPath.startsWith(".")) return `is an invalid path: expected [ or . but got: ${/^[^.[]*/.exec(jsonPath)?.[0] ?? ""}`;
  if (jsonPath.includes("[")) return "is an invalid path: array notation is not allowed";
  if (!simplePath.test(jsonPath)) return "must be a simple json path starting with .";
  const found = valueAt(
    schema,
    ...jsonPath
      .slice(1)
      .split(".")
      .flatMap((step) => ["properties", step]),
  );
  if (found === undefined) return "is an invalid path: does not refer to a valid field";
  if (jsonPath.startsWith(".metadata.")) return "must not point to fields in metadata";
  if (["string", "boolean", "integer"].includes(textAt(found, "type"))) return undefined;
  return "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
}
