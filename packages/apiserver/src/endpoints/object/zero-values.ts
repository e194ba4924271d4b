import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { Steps } from "@keelson/api-machinery/server";
import { type Definition, type DefinitionField, definitionOf, isDefinitionName } from "../../registry/builtin/definition.ts";

/**
 * Applies Go's zero values to an object of a built-in kind, in place. kube-apiserver decodes into Go structs, which cannot distinguish a
 * zero value from an absent one, unless the field is a pointer:
 *
 * - null is removed, and so are zero values of fields that Go omits when empty;
 * - structs that are not pointers always exist, even without fields: `spec`, the `metadata` of a template, `resources` of a container;
 * - texts, numbers and booleans that Go always writes get their zero value, in a status also times (null).
 *
 * Empty lists and maps that Go would write as null stay absent. Top-level metadata is left unchanged, and with `isStatusAlone` everything
 * but `status`. Takes a step for a few hundred structs.
 */
export function* applyZeroValues(
  definition: Definition,
  object: JsonObject,
  { isStatusAlone = false }: { readonly isStatusAlone?: boolean } = {},
): Steps<void> {
  const pending: Part[] = [];
  for (const field of definition.fields) {
    if (field.name === "apiVersion" || field.name === "kind" || field.name === "metadata") continue;
    if (isStatusAlone && field.name !== "status") continue;
    applyField(field, object, field.name === "status", pending);
  }
  for (let part = pending.pop(), taken = 1; part !== undefined; part = pending.pop(), taken++) {
    for (const field of part.struct.fields) applyField(field, part.object, part.isStatus, pending);
    if (taken % partsPerStep === 0) yield;
  }
}

/** Structs between two steps: about a millisecond. */
const partsPerStep = 200;

/** A struct whose fields get their zero values next. */
interface Part {
  readonly struct: Definition;
  readonly object: JsonObject;
  readonly isStatus: boolean;
}

function applyField(field: DefinitionField, object: JsonObject, isStatus: boolean, pending: Part[]): void {
  const { name, encoding, type } = field;
  const struct = structOf(type);
  const value = Object.hasOwn(object, name) ? object[name] : undefined;
  if (value === undefined || value === null) {
    const zero = zeroOf(type);
    if (value === null && !isAny(type)) delete object[name];
    if (encoding === "pointer" || (value === null && isAny(type))) return;
    if (struct !== undefined && encoding !== "omitzero") {
      const created: JsonObject = {};
      object[name] = created;
      pending.push({ struct, object: created, isStatus });
    } else if (encoding === "always" && zero !== undefined) object[name] = zero;
    else if (isTime(type) && isStatus && encoding !== "omitzero") object[name] = null;
    return;
  }
  applyElements(type, value, isStatus, pending);
  if (encoding === undefined && isEmpty(type, value)) delete object[name];
  else if (encoding === "omitzero" && isJsonObject(value) && Object.keys(value).length === 0) delete object[name];
}

/** Applies zero values to the parts of a value that was sent. */
function applyElements(type: string, value: unknown, isStatus: boolean, pending: Part[]): void {
  const struct = structOf(type);
  if (struct !== undefined) {
    if (isJsonObject(value)) pending.push({ struct, object: value, isStatus });
  } else if (type.startsWith("[]") && Array.isArray(value)) {
    const element = type.slice(2);
    for (const [index, item] of value.entries()) {
      if (item === null) value[index] = elementZeroOf(element, isStatus, pending);
      else if (typeof item === "object") applyElements(element, item, isStatus, pending);
    }
  } else if (type.startsWith("{}") && isJsonObject(value)) {
    const element = type.slice(2);
    for (const key of Object.keys(value)) {
      const item = value[key];
      // A map keeps the key with a zero value. A struct is removed: the merge patches of clients contain such nulls in lists.
      if (item !== null) {
        if (typeof item === "object") applyElements(element, item, isStatus, pending);
      } else if (!isAny(element)) {
        const zero = element === "byte" ? "" : zeroOf(element);
        if (zero === undefined) delete value[key];
        else value[key] = zero;
      }
    }
  }
}

/** What Go decodes from a null in a list. */
function elementZeroOf(element: string, isStatus: boolean, pending: Part[]): unknown {
  const struct = structOf(element);
  if (struct === undefined) return zeroOf(element) ?? null;
  const created: JsonObject = {};
  pending.push({ struct, object: created, isStatus });
  return created;
}

/** The definition of a struct; undefined for other types, and for those with their own encoding. */
function structOf(type: string): Definition | undefined {
  if (type.startsWith("[]") || type.startsWith("{}") || !isDefinitionName(type)) return undefined;
  const definition = definitionOf(type);
  return definition.fields.length === 0 ? undefined : definition;
}

function isAny(type: string): boolean {
  return type === "any" || type === "object" || anyTypes.has(type);
}

/** Types with their own decoder, which may accept null. */
const anyTypes: ReadonlySet<string> = new Set([
  "apiextensions.v1.JSON",
  "apiextensions.v1.JSONSchemaPropsOrArray",
  "apiextensions.v1.JSONSchemaPropsOrBool",
  "apiextensions.v1.JSONSchemaPropsOrStringArray",
  "apimachinery.runtime.RawExtension",
  "meta.v1.FieldsV1",
]);

function isTime(type: string): boolean {
  return type === "meta.v1.Time" || type === "meta.v1.MicroTime";
}

function zeroOf(type: string): string | number | boolean | undefined {
  switch (type) {
    case "string":
      return "";
    case "int32":
    case "int64":
    case "integer":
    case "apimachinery.util.intstr.IntOrString":
      return 0;
    case "boolean":
      return false;
    case "apimachinery.api.resource.Quantity":
      return "0";
    default:
      return undefined;
  }
}

function isEmpty(type: string, value: unknown): boolean {
  if (Array.isArray(value)) return type.startsWith("[]") && value.length === 0;
  if (isJsonObject(value)) return type.startsWith("{}") && Object.keys(value).length === 0;
  if (type === "byte") return value === "";
  return type !== "apimachinery.util.intstr.IntOrString" && value === zeroOf(type);
}
