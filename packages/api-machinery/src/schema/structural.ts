import { ruleCauses } from "../cel/rule-faults.ts";
import { forbiddenCause, invalidCause, notSupportedCause, requiredCause } from "../protocol/field-causes.ts";
import { isJsonObject, jsonEquals } from "../objects/json.ts";
import type { StatusCause } from "../protocol/status.ts";
import { compilePattern } from "../pattern/pattern.ts";
import { prune } from "./prune.ts";
import type { Schema } from "./schema.ts";
import { validate } from "./validate.ts";

type Level = "root" | "item" | "field";
type Node = { readonly [key: string]: unknown };

const maxDepth = 256;
const types = ["array", "boolean", "integer", "number", "object", "string"];
const intOrString = [{ type: "integer" }, { type: "string" }];

/**
 * What keeps `schema` from being the structural schema of a CustomResourceDefinition, with kube-apiserver's paths, reasons
 * and messages; nothing where it is one. `path` is the schema's own, for example
 * `spec.versions[0].schema.openAPIV3Schema`. Where it is one, its CEL rules must
 * compile, unless `leavesRules` is set.
 */
export function validateStructural(
  schema: Schema,
  path = "",
  { leavesRules = false }: { readonly leavesRules?: boolean } = {},
): StatusCause[] {
  const causes: StatusCause[] = [];
  visit(asNode(schema), "root", path, 0, causes);
  if (causes.length === 0 && !leavesRules) visitRules(schema, path, true, true, causes);
  // What has keywords of another kind of schema is not looked at any further.
  const foreign = causes.filter(({ message }) => message?.endsWith("is not supported"));
  return (foreign.length > 0 ? foreign : causes).sort((a, b) =>
    compare(`${a.field}: ${a.message}`, `${b.field}: ${b.message}`),
  );
}

/** Rules can be compiled only where the schema says what its values are. */
function visitRules(schema: Schema, path: string, isRoot: boolean, isCorrelatable: boolean, causes: StatusCause[]): void {
  causes.push(...ruleCauses(schema, path, { isRoot, isCorrelatable }));
  const { items, properties = {}, additionalProperties } = schema;
  if (items) visitRules(items, `${path}.items`, false, isCorrelatable && schema["x-kubernetes-list-type"] === "map", causes);
  for (const [name, property] of Object.entries(properties)) {
    if (isRoot && name === "metadata") continue;
    visitRules(property, `${path}.properties[${name}]`, false, isCorrelatable, causes);
  }
  if (typeof additionalProperties === "object") {
    visitRules(additionalProperties, `${path}.additionalProperties`, false, isCorrelatable, causes);
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function asNode(value: unknown): Node {
  return isJsonObject(value) ? value : {};
}

function entries(value: unknown): [string, Node][] {
  return isJsonObject(value) ? Object.entries(value).map(([key, child]) => [key, asNode(child)]) : [];
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function visit(schema: Node, level: Level, path: string, depth: number, causes: StatusCause[]): void {
  if (depth > maxDepth) {
    causes.push(forbiddenCause(path, `must not nest deeper than ${maxDepth} levels`));
    return;
  }
  const { type, items, properties, additionalProperties } = schema;
  checkForm(schema, path, causes);
  checkListType(schema, path, causes);
  checkType(schema, level, path, causes);
  if (type === "array" && items === undefined) causes.push(requiredCause(`${path}.items`, "must be specified"));
  if (Array.isArray(items)) causes.push(forbiddenCause(`${path}.items`, "items must be a schema object and not an array"));
  else if (items !== undefined) visit(asNode(items), "item", `${path}.items`, depth + 1, causes);
  for (const [name, property] of entries(properties)) {
    const at = `${path}.properties[${name}]`;
    if (name === "metadata" && level === "root") checkRootMetadata(property, at, causes);
    else visit(property, "field", at, depth + 1, causes);
  }
  if (additionalProperties !== undefined) {
    const at = `${path}.additionalProperties`;
    if (additionalProperties === false) causes.push(forbiddenCause(at, "additionalProperties cannot be set to false"));
    else if (entries(properties).length > 0) {
      causes.push(forbiddenCause(at, "additionalProperties and properties are mutual exclusive"));
    }
    if (level === "root") causes.push(forbiddenCause(at, "must not be used at the root"));
    if (schema["x-kubernetes-embedded-resource"] === true) {
      causes.push(forbiddenCause(at, "must not be used if x-kubernetes-embedded-resource is set"));
    }
    if (isJsonObject(additionalProperties)) visit(additionalProperties, "field", at, depth + 1, causes);
  }
  if (level === "root" || schema["x-kubernetes-embedded-resource"] === true) checkTypeMeta(schema, path, causes);
  checkValueValidation(schema, path, depth, causes);
  // Only here, as in kube-apiserver: below the root, value validation may speak of fields that are not specified.
  if (level === "root") checkCompleteness(schema, path, causes);
  checkDefault(schema, path, causes);
}

function checkType(schema: Node, level: Level, path: string, causes: StatusCause[]): void {
  const { type } = schema;
  const at = `${path}.type`;
  const free = schema["x-kubernetes-int-or-string"] === true || schema["x-kubernetes-preserve-unknown-fields"] === true;
  const embedded = schema["x-kubernetes-embedded-resource"] === true;
  if (embedded && type !== "object") {
    const detail = "must be object if x-kubernetes-embedded-resource is true";
    causes.push(type === undefined || type === "" ? requiredCause(at, detail) : invalidCause(at, type, detail));
  } else if ((type === undefined || type === "") && !free) {
    const where = { root: "at the root", item: "for specified array items", field: "for specified object fields" }[level];
    causes.push(requiredCause(at, `must not be empty ${where}`));
  } else if (type === "null") {
    causes.push(forbiddenCause(at, "type cannot be set to null, use nullable as an alternative"));
  } else if (type !== undefined && type !== "" && !types.some((known) => known === type)) {
    causes.push(notSupportedCause(at, type, types));
  } else if (level === "root" && type !== undefined && type !== "" && type !== "object") {
    causes.push(invalidCause(at, type, "must be object at the root"));
  }
  if (embedded && schema["x-kubernetes-preserve-unknown-fields"] !== true && entries(schema.properties).length === 0) {
    const detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
    causes.push(requiredCause(`${path}.properties`, detail));
  }
  if (schema["x-kubernetes-int-or-string"] === true) {
    for (const key of ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"]) {
      if (schema[key] === true)
        causes.push(invalidCause(`${path}.${key}`, true, "must be false if x-kubernetes-int-or-string is true"));
    }
    if (type !== undefined && type !== "") {
      causes.push(invalidCause(at, type, "must be empty if x-kubernetes-int-or-string is true"));
    }
  }
}

/** Keywords of JSON Schema that Kubernetes has no use for. */
function checkForm(schema: Node, path: string, causes: StatusCause[]): void {
  for (const key of ["$ref", "$schema", "id", "definitions", "dependencies", "additionalItems", "patternProperties"]) {
    if (schema[key] === undefined) continue;
    causes.push(forbiddenCause(`${path}.${key}`, `${key} is not supported`));
  }
  if (schema.uniqueItems === true) {
    const detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
    causes.push(forbiddenCause(`${path}.uniqueItems`, detail));
  }
  const preserve = schema["x-kubernetes-preserve-unknown-fields"];
  if (preserve !== undefined && preserve !== true) {
    causes.push(invalidCause(`${path}.x-kubernetes-preserve-unknown-fields`, preserve, "must be true or undefined"));
  }
}

function checkListType(schema: Node, path: string, causes: StatusCause[]): void {
  const listType = schema["x-kubernetes-list-type"];
  const mapType = schema["x-kubernetes-map-type"];
  const keys = list(schema["x-kubernetes-list-map-keys"]).map(String);
  const typePath = `${path}.type`;
  const needsType = (wanted: string, extension: string): void => {
    const detail = `must be ${wanted} if ${extension} is specified`;
    if (schema.type === wanted) return;
    causes.push(schema.type === undefined ? requiredCause(typePath, detail) : invalidCause(typePath, schema.type, detail));
  };
  if (mapType !== undefined) {
    needsType("object", "x-kubernetes-map-type");
    if (mapType !== "granular" && mapType !== "atomic") {
      causes.push(notSupportedCause(`${path}.x-kubernetes-map-type`, mapType, ["granular", "atomic"]));
    }
  }
  const listTypePath = `${path}.x-kubernetes-list-type`;
  if (listType !== undefined) {
    needsType("array", "x-kubernetes-list-type");
    if (listType !== "atomic" && listType !== "set" && listType !== "map") {
      causes.push(notSupportedCause(listTypePath, listType, ["atomic", "set", "map"]));
    }
  }
  if (keys.length > 0 && listType !== "map") {
    const detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    causes.push(listType === undefined ? requiredCause(listTypePath, detail) : invalidCause(listTypePath, listType, detail));
  }
  if (listType === "map") checkMapKeys(schema, keys, path, causes);
  if (listType === "set") checkSetItems(asNode(schema.items), `${path}.items`, causes);
}

function checkMapKeys(schema: Node, keys: readonly string[], path: string, causes: StatusCause[]): void {
  const at = `${path}.x-kubernetes-list-map-keys`;
  if (keys.length === 0) causes.push(requiredCause(at, "must not be empty if x-kubernetes-list-type is map"));
  if (!isJsonObject(schema.items)) {
    causes.push(requiredCause(`${path}.items`, "must have a schema if x-kubernetes-list-type is map"));
    return;
  }
  const items = schema.items;
  if (items.type !== "object") {
    causes.push(
      invalidCause(`${path}.items.type`, items.type ?? "", "must be object if parent array's x-kubernetes-list-type is map"),
    );
  }
  const properties = asNode(items.properties);
  const unknown = keys.some((key) => !Object.hasOwn(properties, key));
  if (unknown) causes.push(invalidCause(at, keys, "entries must all be names of item properties"));
  if (new Set(keys).size < keys.length) causes.push(invalidCause(at, keys, "must not contain duplicate entries"));
  for (const key of keys) {
    if (!Object.hasOwn(properties, key)) continue;
    const property = asNode(properties[key]);
    const propertyPath = `${path}.items.properties[${key}]`;
    if (property.type === "array" || property.type === "object") {
      const detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
      causes.push(invalidCause(`${propertyPath}.type`, property.type, detail));
    }
    if (property.nullable === true) {
      const detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
      causes.push(forbiddenCause(`${propertyPath}.nullable`, detail));
    }
    if (property.default === undefined && !list(items.required).includes(key)) {
      const detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
      causes.push(requiredCause(`${propertyPath}.default`, detail));
    }
  }
}

function checkSetItems(items: Node, path: string, causes: StatusCause[]): void {
  const detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
  if (items.nullable === true) {
    causes.push(forbiddenCause(`${path}.nullable`, "cannot be nullable when x-kubernetes-list-type is set"));
  }
  if (items.type === "object" && items["x-kubernetes-map-type"] !== "atomic") {
    causes.push(invalidCause(`${path}.x-kubernetes-map-type`, items["x-kubernetes-map-type"] ?? null, detail));
  }
  const listType = items["x-kubernetes-list-type"];
  if (items.type === "array" && listType !== undefined && listType !== "atomic") {
    causes.push(invalidCause(`${path}.x-kubernetes-list-type`, listType, detail));
  }
}

function checkTypeMeta(schema: Node, path: string, causes: StatusCause[]): void {
  const properties = asNode(schema.properties);
  for (const [name, type] of [
    ["kind", "string"],
    ["apiVersion", "string"],
    ["metadata", "object"],
  ] as const) {
    if (!Object.hasOwn(properties, name)) continue;
    const actual = asNode(properties[name]).type;
    if (actual !== type) causes.push(invalidCause(`${path}.properties[${name}].type`, actual ?? "", `must be ${type}`));
  }
}

function checkRootMetadata(metadata: Node, path: string, causes: StatusCause[]): void {
  const { type: _, description: __, properties, ...rest } = metadata;
  const others = entries(properties).filter(([name]) => name !== "name" && name !== "generateName");
  if (Object.keys(rest).length === 0 && others.length === 0) return;
  const detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
  causes.push(forbiddenCause(path, detail));
}

function checkValueValidation(schema: Node, path: string, depth: number, causes: StatusCause[]): void {
  const isIntOrString = schema["x-kubernetes-int-or-string"] === true;
  if (!isIntOrString || !jsonEquals(schema.anyOf, intOrString)) visitNestedList(schema.anyOf, `${path}.anyOf`, depth, causes);
  list(schema.allOf).forEach((branch, index) => {
    const { anyOf, ...others } = asNode(branch);
    const isCustomary = isIntOrString && index === 0 && jsonEquals(anyOf, intOrString);
    visitNested(isCustomary ? others : asNode(branch), `${path}.allOf[${index}]`, depth + 1, causes);
  });
  visitNestedList(schema.oneOf, `${path}.oneOf`, depth, causes);
  if (isJsonObject(schema.not)) visitNested(schema.not, `${path}.not`, depth + 1, causes);
  if (typeof schema.pattern === "string") {
    try {
      compilePattern(schema.pattern);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      causes.push(invalidCause(`${path}.pattern`, schema.pattern, `must be a valid regular expression, but isn't: ${reason}`));
    }
  }
}

function visitNestedList(branches: unknown, path: string, depth: number, causes: StatusCause[]): void {
  list(branches).forEach((branch, index) => visitNested(asNode(branch), `${path}[${index}]`, depth + 1, causes));
}

/** Keywords that describe structure, and so may not stand under allOf, anyOf, oneOf or not. */
const structuralKeywords = {
  type: "must be empty to be structural",
  title: "must be empty to be structural",
  description: "must be empty to be structural",
  default: "must be undefined to be structural",
  externalDocs: "must be undefined to be structural",
  additionalProperties: "must be undefined to be structural",
  nullable: "must be false to be structural",
  "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
  "x-kubernetes-embedded-resource": "must be false to be structural",
  "x-kubernetes-int-or-string": "must be false to be structural",
  "x-kubernetes-list-map-keys": "must be empty to be structural",
  "x-kubernetes-list-type": "must be undefined to be structural",
  "x-kubernetes-map-type": "must be undefined to be structural",
  "x-kubernetes-validations": "must be empty to be structural",
} as const;

function visitNested(schema: Node, path: string, depth: number, causes: StatusCause[]): void {
  if (depth > maxDepth) {
    causes.push(forbiddenCause(path, `must not nest deeper than ${maxDepth} levels`));
    return;
  }
  for (const [key, detail] of Object.entries(structuralKeywords)) {
    const value = schema[key];
    if (value !== undefined && value !== "" && value !== false) causes.push(forbiddenCause(`${path}.${key}`, detail));
  }
  checkForm(schema, path, causes);
  if (isJsonObject(schema.items)) visitNested(schema.items, `${path}.items`, depth + 1, causes);
  for (const [name, property] of entries(schema.properties)) {
    const at = `${path}.properties[${name}]`;
    if (name === "metadata") causes.push(forbiddenCause(at, "must not be specified in a nested context"));
    visitNested(property, at, depth + 1, causes);
  }
  checkValueValidation(schema, path, depth, causes);
}

/** Every field that value validation speaks of has to be specified outside of it. */
function checkCompleteness(schema: Node, path: string, causes: StatusCause[]): void {
  const branches: [unknown, string][] = [[schema.not, "not"]];
  for (const key of ["allOf", "anyOf", "oneOf"]) {
    list(schema[key]).forEach((branch, index) => branches.push([branch, `${key}[${index}]`]));
  }
  for (const [branch, at] of branches) complete(asNode(branch), schema, `${path}.${at}`, path, 0, causes);
}

function complete(nested: Node, main: Node, nestedPath: string, mainPath: string, depth: number, causes: StatusCause[]): void {
  if (depth > maxDepth) return;
  if (nested.items !== undefined) {
    if (main.items === undefined)
      causes.push(requiredCause(`${mainPath}.items`, `because it is defined in ${nestedPath}.items`));
    else complete(asNode(nested.items), asNode(main.items), `${nestedPath}.items`, `${mainPath}.items`, depth + 1, causes);
  }
  const properties = asNode(main.properties);
  for (const [name, property] of entries(nested.properties)) {
    const at = `properties[${name}]`;
    if (Object.hasOwn(properties, name)) {
      complete(property, asNode(properties[name]), `${nestedPath}.${at}`, `${mainPath}.${at}`, depth + 1, causes);
    } else causes.push(requiredCause(`${mainPath}.${at}`, `because it is defined in ${nestedPath}.${at}`));
  }
  for (const key of ["allOf", "anyOf", "oneOf"]) {
    list(nested[key]).forEach((branch, index) => {
      complete(asNode(branch), main, `${nestedPath}.${key}[${index}]`, mainPath, depth + 1, causes);
    });
  }
  if (isJsonObject(nested.not)) complete(nested.not, main, `${nestedPath}.not`, mainPath, depth + 1, causes);
}

function checkDefault(schema: Node, path: string, causes: StatusCause[]): void {
  if (schema.default === undefined) return;
  const at = `${path}.default`;
  const { value, unknown } = prune(schema as Schema, schema.default);
  if (unknown.length > 0) causes.push(invalidCause(at, schema.default, `must not have unknown fields: ${unknown.join(", ")}`));
  for (const cause of validate(schema as Schema, value)) {
    // A default may be incomplete where defaults further down complete it.
    if (cause.reason === "FieldValueRequired" && hasDefaultAt(schema, cause.field ?? "")) continue;
    causes.push({ ...cause, field: cause.field === "" || cause.field === "<nil>" ? at : `${at}.${cause.field}` });
  }
}

function hasDefaultAt(schema: Node, field: string): boolean {
  let node = schema;
  for (const step of field.split(/[.[]/)) {
    node = step.endsWith("]") ? asNode(node.items) : asNode(asNode(node.properties)[step] ?? node.additionalProperties);
  }
  return node.default !== undefined;
}
