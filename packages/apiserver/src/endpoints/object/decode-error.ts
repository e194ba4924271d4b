import { isJsonObject } from "@keelson/api-machinery";
import { base64Fault, timeFault } from "../../registry/builtin/decode-faults.ts";
import { type Definition, definitionNameOfKind, definitionOf, isDefinitionName } from "../../registry/builtin/definition.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { badRequest } from "../errors.ts";

/**
 * The `BadRequest` for an object of a built-in kind with a value of the wrong type at `path` (`spec.containers[0].image`), with the
 * message of Go's decoder: `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
 */
export function decodeError(
  resource: Pick<ServedResource, "group" | "version" | "kind">,
  object: unknown,
  path: string,
): Error {
  const { group, version, kind } = resource;
  const name = definitionNameOfKind(group, version, kind);
  const target = name === undefined ? undefined : walk(definitionOf(name), object, stepsOf(path));
  const why = target === undefined ? `${path.slice(0, maxPathLength)} has the wrong type` : faultOf(target);
  return badRequest(`${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${why}`);
}

/** Maximum length of a path in a message. */
const maxPathLength = 1_000;

/** The names in a path. Those of a map key with dots or brackets are its parts. */
const stepsOf = (path: string): readonly string[] => path.split(/[.[\]]+/).filter((step) => step !== "");

/** Types with their own decoder, and the type that it reads: Go names that one. */
const decodedTypes: Readonly<Record<string, string>> = {
  "intstr.IntOrString": "int32",
  "v1.MicroTime": "string",
  "v1.Time": "string",
};

const badQuantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

function faultOf({ struct, field, type, value }: Target): string {
  if (type === "resource.Quantity") return badQuantity;
  if (typeof value === "string") {
    if (type === "v1.Time") return timeFault(value, "time");
    if (type === "v1.MicroTime") return timeFault(value, "microTime");
    if (type === "[]uint8") return base64Fault(value);
  }
  const decoded = decodedTypes[type] ?? type;
  return `json: cannot unmarshal ${jsonType(value, decoded)} into Go struct field ${struct}.${field} of type ${decoded}`;
}

interface Target {
  /** The innermost struct without its package. */
  readonly struct: string;
  /** Field names from the root, without indexes and map keys, with the names of embedded structs. */
  readonly field: string;
  readonly type: string;
  readonly value: unknown;
}

function walk(root: Definition, object: unknown, steps: readonly string[]): Target | undefined {
  let definition: Definition | undefined = root;
  let type = "";
  let named: string | undefined;
  let struct = "";
  let value = object;
  const fields: string[] = [];
  for (let index = 0; index < steps.length; ) {
    const isMap = definition === undefined && type.startsWith("{}");
    const { key: step, count } = (isMap ? mapKey(value, steps, index) : undefined) ?? { key: steps[index] ?? "", count: 1 };
    if (definition !== undefined) {
      const field = definition.fields.find(({ name }) => name === step);
      if (field === undefined) return undefined;
      struct = localName(definition.name);
      if (field.embeddedIn !== undefined) fields.push(field.embeddedIn);
      fields.push(step);
      type = field.type;
      named = field.goType;
    } else if (isMap || type.startsWith("[]")) {
      type = type.slice(2);
      named = elementType(named);
    } else return undefined;
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string, unknown>)[step];
    definition = isDefinitionName(type) ? definitionOf(type) : undefined;
    index += count;
  }
  return { struct, field: fields.join("."), type: named ?? goType(type), value };
}

/** The type of the elements of a Go list or map; undefined for a named type, whose elements are not known by name. */
function elementType(type: string | undefined): string | undefined {
  const match = /^(?:\[\]|map\[[^\]]*\])(.*)$/.exec(type ?? "");
  return match?.[1];
}

/** The longest key of a map whose parts are the steps from `start`, and their number. Linear in the length of all keys. */
function mapKey(
  map: unknown,
  steps: readonly string[],
  start: number,
): { readonly key: string; readonly count: number } | undefined {
  let found: { readonly key: string; readonly count: number } | undefined;
  for (const key of isJsonObject(map) ? Object.keys(map) : []) {
    const own = stepsOf(key);
    if (own.length <= (found?.count ?? 0) || own.some((step, index) => step !== steps[start + index])) continue;
    found = { key, count: own.length };
  }
  return found;
}

function localName(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

const goNames: Readonly<Record<string, string>> = {
  boolean: "bool",
  byte: "[]uint8",
  double: "float64",
  integer: "int",
  number: "float64",
};

function goType(type: string): string {
  if (type.startsWith("[]")) return `[]${goType(type.slice(2))}`;
  if (type.startsWith("{}")) return `map[string]${goType(type.slice(2))}`;
  if (isDefinitionName(type)) return type.split(".").slice(-2).join(".");
  return goNames[type] ?? type;
}

/** The type of a value as Go's decoder names it, with the number if a field of the numeric type `type` cannot hold it. */
export function jsonType(value: unknown, type: string): string {
  if (Array.isArray(value)) return "array";
  if (isJsonObject(value)) return "object";
  if (typeof value === "boolean") return "bool";
  return typeof value === "number" && /^(?:int|int32|int64|float64)$/.test(type) ? `number ${value}` : typeof value;
}
