import { isJsonObject } from "@keelson/api-machinery";
import { base64Fault } from "../../registry/builtin/decode-faults.ts";
import {
  type DefinitionField,
  definitionNameOfKind,
  definitionOf,
  isDefinitionName,
} from "../../registry/builtin/definition.ts";
import type { ServedResource } from "../../registry/served-resource.ts";

/**
 * Why kube-apiserver cannot convert the result of a strategic merge patch to a built-in kind. It merges values without their types and then
 * converts the result: `cannot restore slice from string`. Undefined if the result can be converted, or if the type has a decoder of its
 * own, such as a quantity.
 */
export function conversionFault(
  resource: Pick<ServedResource, "group" | "version" | "kind">,
  result: unknown,
): string | undefined {
  const name = definitionNameOfKind(resource.group, resource.version, resource.kind);
  return name === undefined ? undefined : faultOf(name, undefined, result);
}

function faultOf(type: string, goType: string | undefined, value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (type.startsWith("[]")) return listFault(type.slice(2), value);
  if (type.startsWith("{}")) return mapFault(type.slice(2), value);
  if (isDefinitionName(type)) return structFault(definitionOf(type).fields, value);
  switch (type) {
    case "byte":
      return typeof value === "string" ? bytesFault(value) : listFault("integer", value);
    case "string":
      return scalarFault("string", goType ?? "string", value);
    case "boolean":
      return scalarFault("bool", "bool", value);
    case "int32":
    case "int64":
      return Number.isInteger(value) ? undefined : scalarFault(type, type, value);
    default:
      return undefined;
  }
}

function listFault(type: string, value: unknown): string | undefined {
  if (!Array.isArray(value)) return `cannot restore slice from ${goKind(value)}`;
  return firstFault(value.map((item: unknown) => () => faultOf(type, undefined, item)));
}

function mapFault(type: string, value: unknown): string | undefined {
  if (!isJsonObject(value)) return `cannot restore map from ${goKind(value)}`;
  return firstFault(Object.values(value).map((item) => () => faultOf(type, undefined, item)));
}

/** Types without fields have their own decoders. */
function structFault(fields: readonly DefinitionField[], value: unknown): string | undefined {
  if (fields.length === 0) return undefined;
  if (!isJsonObject(value)) return `cannot restore struct from: ${goKind(value)}`;
  return firstFault(
    fields.map(
      ({ name, type, goType }) =>
        () =>
          faultOf(type, goType, Object.hasOwn(value, name) ? value[name] : null),
    ),
  );
}

function firstFault(faults: readonly (() => string | undefined)[]): string | undefined {
  for (const fault of faults) {
    const found = fault();
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Go converts integers to texts and fractions to integers, which JSON does not allow. It cannot convert other values at all. */
function scalarFault(kind: string, goType: string, value: unknown): string | undefined {
  const found = goKind(value);
  if (found === kind) return undefined;
  const isConvertible = (found === "int64" && kind === "string") || (found === "float64" && kind.startsWith("int"));
  return isConvertible ? `cannot convert ${found} to ${goType}` : `unrecognized type: ${kind}`;
}

function bytesFault(value: string): string | undefined {
  return Buffer.from(value, "base64").toString("base64") === value.replaceAll(/[\r\n]/g, "") ? undefined : base64Fault(value);
}

/** The kind of a value in Go after JSON was decoded without types. */
function goKind(value: unknown): string {
  if (Array.isArray(value)) return "slice";
  switch (typeof value) {
    case "object":
      return "map";
    case "boolean":
      return "bool";
    case "number":
      return Number.isInteger(value) ? "int64" : "float64";
    default:
      return "string";
  }
}
