import { isJsonObject } from "@keelson/api-machinery";
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
  const steps = path.split(/[.[\]]+/).filter((step) => step !== "");
  const target = name === undefined ? undefined : walk(definitionOf(name), object, steps);
  const why =
    target === undefined
      ? `${path} has the wrong type`
      : typeof target.value === "string" && /^v1\.(?:Micro)?Time$/.test(target.type)
        ? `parsing time ${JSON.stringify(target.value)} as "2006-01-02T15:04:05Z07:00": cannot parse ${JSON.stringify(target.value)}`
        : `json: cannot unmarshal ${valueText(target)} into Go struct field ${target.struct}.${target.field} of type ${target.type}`;
  return badRequest(`${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${why}`);
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
    const count = isMap ? keyLength(value, steps.slice(index)) : 1;
    const step = steps.slice(index, index + count).join(".");
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

/** The type of the value as Go's decoder names it, with the number if it is out of the range of the field. */
function valueText({ type, value }: Target): string {
  return typeof value === "number" && /^(?:int|int32|int64)$/.test(type) ? `number ${value}` : jsonType(value);
}

/** Number of steps that form one map key, since a key may contain dots. */
function keyLength(map: unknown, steps: readonly string[]): number {
  if (!isJsonObject(map)) return 1;
  for (let count = steps.length; count > 1; count--) if (Object.hasOwn(map, steps.slice(0, count).join("."))) return count;
  return 1;
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

/** The type of a value as Go's decoder names it. */
export function jsonType(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (isJsonObject(value)) return "object";
  if (typeof value === "boolean") return "bool";
  return typeof value === "number" && !Number.isInteger(value) ? `number ${value}` : typeof value;
}
