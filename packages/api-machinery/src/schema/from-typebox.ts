import { isJsonObject, jsonEquals } from "../objects/json.ts";
import type { Schema } from "./schema.ts";

type Node = { readonly [key: string]: unknown };

/** Keywords that are copied unchanged. */
const plainKeywords = new Set([
  "type",
  "description",
  "title",
  "format",
  "nullable",
  "default",
  "enum",
  "example",
  "externalDocs",
  "required",
  "minProperties",
  "maxProperties",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minLength",
  "maxLength",
  "pattern",
  "minimum",
  "maximum",
  "multipleOf",
]);

/** Keywords that Kubernetes does not support and that are dropped. */
const droppedKeywords = new Set([
  "$id",
  "$schema",
  "$comment",
  "examples",
  "readOnly",
  "writeOnly",
  "deprecated",
  "contentEncoding",
]);

const matchAll = "^.*$";

/**
 * Converts a TypeBox schema to a structural schema:
 *
 * - a union of literals, an enum and a single literal become a typed `enum`;
 * - a union with `Null` becomes `nullable`; a union of `Integer` and `String` becomes an int-or-string;
 * - a record becomes `additionalProperties`; an intersection of objects becomes one object;
 * - `Unknown` and `Any` become `x-kubernetes-preserve-unknown-fields`;
 * - `x-kubernetes-*` options and hand-written schemas (`Type.Unsafe`) are kept, if they are structural.
 *
 * **Errors**: a `TypeError` that names the path and the reason if there is no structural equivalent.
 */
export function schemaFromTypeBox(type: object, path = ""): Schema {
  return convert(type as Node, path, false);
}

function reject(path: string, reason: string): never {
  throw new TypeError(`schema ${path === "" ? "(root)" : path}: ${reason}`);
}

/** `nested`: below allOf, anyOf, oneOf or not, where only value validation is allowed. */
function convert(node: Node, path: string, nested: boolean): Schema {
  const union = nested ? undefined : fromUnion(node, path);
  if (union) return union;
  if (Array.isArray(node.items)) reject(path, "a tuple is not structural; use an array or an object");
  const merged = nested ? node : mergeIntersection(node, path);
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(merged)) {
    const value = merged[key];
    if (value === undefined || key.startsWith("~") || droppedKeywords.has(key)) continue;
    if (plainKeywords.has(key) || key.startsWith("x-kubernetes-")) result[key] = value;
    else convertKeyword(merged, key, value, path, nested, result);
  }
  if (result.type === "null")
    reject(path, "Type.Null() is only allowed in a union, as in Type.Union([Type.String(), Type.Null()])");
  if (Array.isArray(result.required) && result.required.length === 0) delete result.required;
  if (nested) return result;
  return complete(result, path);
}

function convertKeyword(
  node: Node,
  key: string,
  value: unknown,
  path: string,
  nested: boolean,
  result: Record<string, unknown>,
): void {
  switch (key) {
    case "properties": {
      const properties = convertProperties(value as Node, path, nested);
      // TypeBox gives an object without properties an empty map, which Kubernetes does not need.
      if (Object.keys(properties).length > 0 || !nested) result.properties = properties;
      return;
    }
    case "items":
      result.items = convert(value as Node, `${path}[]`, nested);
      return;
    case "additionalProperties":
      if (value === false) return;
      result.additionalProperties = value === true ? true : convert(value as Node, `${path}.*`, nested);
      return;
    case "patternProperties":
      result.additionalProperties = convert(anyKeySchema(value as Node, path), `${path}.*`, nested);
      return;
    case "const":
      result.enum = [value];
      if (!nested) result.type = typeOfAll([value]) ?? reject(path, "a literal must be a string, a number or a boolean");
      return;
    case "exclusiveMinimum":
    case "exclusiveMaximum": {
      // In JSON Schema 2020 this is the bound; in OpenAPI 3.0 it is a flag next to `minimum`.
      const bound = key === "exclusiveMinimum" ? "minimum" : "maximum";
      if (typeof value === "number") {
        if (node[bound] !== undefined) reject(path, `${bound} and ${key} are mutually exclusive`);
        result[bound] = value;
        result[key] = true;
      } else result[key] = value;
      return;
    }
    case "allOf":
    case "anyOf":
    case "oneOf":
      result[key] = (value as readonly Node[]).map((branch, index) => convert(branch, `${path}.${key}[${index}]`, true));
      return;
    case "not":
      result.not = convert(value as Node, `${path}.not`, true);
      return;
    default:
      reject(path, `keyword ${JSON.stringify(key)} is not part of a structural schema`);
  }
}

function convertProperties(value: Node, path: string, nested: boolean): Record<string, Schema> {
  const properties: Record<string, Schema> = {};
  for (const [name, child] of Object.entries(value)) {
    Object.defineProperty(properties, name, {
      value: convert(child as Node, path === "" ? name : `${path}.${name}`, nested),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return properties;
}

/** The schema of the values of a map with any keys. */
function anyKeySchema(patternProperties: Node, path: string): Node {
  const entries = Object.entries(patternProperties);
  const [entry] = entries;
  if (entries.length === 1 && entry?.[0] === matchAll) return entry[1] as Node;
  const patterns = entries.map(([name]) => name).join(", ");
  const advice = "use Type.Record(Type.String(), ...) and a CEL rule";
  return reject(path, `keys restricted by a pattern (${patterns}) are not structural; ${advice}`);
}

/** Adds keywords that Kubernetes needs and TypeBox omits. */
function complete(result: Record<string, unknown>, path: string): Schema {
  if (Array.isArray(result.enum) && result.type === undefined && result["x-kubernetes-int-or-string"] !== true) {
    result.type = typeOfAll(result.enum) ?? reject(path, "the values of an enum must have one type: string, number or boolean");
  }
  if (result.type === undefined && result["x-kubernetes-int-or-string"] !== true) {
    if (["anyOf", "oneOf", "allOf", "not"].some((key) => result[key] !== undefined)) {
      reject(path, "a union of different types is not structural; use an object with optional fields or add a type");
    }
    if (result.properties === undefined && result.additionalProperties === undefined && result.items === undefined) {
      result["x-kubernetes-preserve-unknown-fields"] = true;
    }
  }
  if (result.properties !== undefined && Object.keys(result.properties as object).length === 0) delete result.properties;
  if (result.uniqueItems !== undefined) {
    // Kubernetes forbids uniqueItems for its cost. A set is equivalent for scalar items.
    const items = result.items as Schema | undefined;
    if (result.uniqueItems === true && (items?.type === "object" || items?.type === "array")) {
      reject(path, 'uniqueItems is only supported for scalars; use "x-kubernetes-list-type": "map"');
    }
    if (result.uniqueItems === true) result["x-kubernetes-list-type"] ??= "set";
    delete result.uniqueItems;
  }
  return result;
}

/** Returns the structural schema of a union of literals, a nullable or an int-or-string. */
function fromUnion(node: Node, path: string): Schema | undefined {
  const { anyOf, ...rest } = node;
  if (!Array.isArray(anyOf) || node.type !== undefined || node["x-kubernetes-int-or-string"] === true) return undefined;
  const branches = anyOf as readonly Node[];
  const others = branches.filter((branch) => branch.type !== "null");
  if (others.length < branches.length) {
    const [only] = others;
    if (only === undefined) reject(path, "a union must have a type other than Null");
    const schema = convert(others.length === 1 ? { ...only, ...rest } : { ...rest, anyOf: others }, path, false);
    // `enum` also applies to null.
    return { ...schema, nullable: true, ...(schema.enum ? { enum: [...schema.enum, null] } : {}) };
  }
  if (branches.length > 0 && branches.every((branch) => Object.hasOwn(branch, "const") || Array.isArray(branch.enum))) {
    const values = branches.flatMap((branch) => (Object.hasOwn(branch, "const") ? [branch.const] : (branch.enum as unknown[])));
    return convert({ ...rest, enum: values }, path, false);
  }
  const types = branches.map((branch) => branch.type);
  if (types.length === 2 && types.includes("string") && (types.includes("integer") || types.includes("number"))) {
    const validations = branches.flatMap((branch) => Object.entries(branch).filter(([key]) => key !== "type"));
    return convert({ ...rest, ...Object.fromEntries(validations), "x-kubernetes-int-or-string": true }, path, false);
  }
  if (branches.length === 1 && branches[0]) return convert({ ...branches[0], ...rest }, path, false);
  return undefined;
}

/** Merges an intersection of objects into one object. */
function mergeIntersection(node: Node, path: string): Node {
  if (!Array.isArray(node.allOf) || node.type !== undefined) return node;
  const { allOf, ...rest } = node;
  const branches = (allOf as readonly Node[]).map((branch) => mergeIntersection(branch, path));
  if (!branches.every((branch) => branch.type === "object" && isJsonObject(branch.properties))) return node;
  const properties: Record<string, unknown> = {};
  const required = new Set<unknown>();
  let others: Node = {};
  for (const branch of branches) {
    const { properties: own, required: needed, ...more } = branch;
    for (const [name, child] of Object.entries(own as Node)) {
      if (Object.hasOwn(properties, name) && !jsonEquals(properties[name], child)) {
        reject(`${path}.${name}`, "two parts of an intersection specify this field differently");
      }
      properties[name] = child;
    }
    if (Array.isArray(needed)) for (const name of needed) required.add(name);
    others = { ...others, ...more };
  }
  return { ...others, ...rest, properties, required: [...required] };
}

function typeOfAll(values: readonly unknown[]): Schema["type"] | undefined {
  const rest = values.filter((value) => value !== null);
  if (rest.length === 0) return undefined;
  if (rest.every((value) => typeof value === "string")) return "string";
  if (rest.every((value) => typeof value === "boolean")) return "boolean";
  if (rest.every(Number.isInteger)) return "integer";
  return rest.every((value) => typeof value === "number") ? "number" : undefined;
}
