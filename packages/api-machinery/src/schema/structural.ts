import { isJsonObject } from "../objects/json.ts";
import { forbiddenCause, invalidCause, notSupportedCause, requiredCause } from "../protocol/field-causes.ts";
import type { StatusCause } from "../protocol/status.ts";
import { expressionLimitCauses } from "./rules/expression-limits.ts";
import { checkListType } from "./list-type.ts";
import { prune } from "./prune.ts";
import type { Schema } from "./schema.ts";
import { celCauses, patternCauses, withoutPatterns } from "./rules/schema-expressions.ts";
import { asNode, entries, maxSchemaDepth, type SchemaNode } from "./schema-node.ts";
import { checkUnsupportedKeywords } from "./unsupported-keywords.ts";
import { validate } from "./validate.ts";
import { runSteps, type Steps } from "../values/steps.ts";
import { checkCompleteness, checkValueValidation } from "./value-validation.ts";

type Level = "root" | "item" | "field";

const types = ["array", "boolean", "integer", "number", "object", "string"];

/** Options of {@link validateStructural}. */
export interface StructuralOptions {
  /** Compiles patterns and CEL rules. Default: true. */
  readonly compileExpressions?: boolean;
}

/**
 * Checks that `schema` is the structural schema of a CustomResourceDefinition and returns the causes why it is not, with
 * kube-apiserver's paths, reasons and messages. `path` is the path of the schema itself, for example
 * `spec.versions[0].schema.openAPIV3Schema`.
 */
export function validateStructural(schema: Schema, path = "", options: StructuralOptions = {}): StatusCause[] {
  return runSteps(validateStructuralInSteps(schema, path, options));
}

/** {@link validateStructural} in steps: one for each node of the schema. */
export function* validateStructuralInSteps(
  schema: Schema,
  path = "",
  { compileExpressions = true }: StructuralOptions = {},
): Steps<StatusCause[]> {
  const causes: StatusCause[] = [];
  const excess = expressionLimitCauses(asNode(schema), path);
  if (excess.length > 0) return excess;
  yield;
  yield* visit(asNode(schema), "root", path, 0, causes, compileExpressions);
  yield;
  if (compileExpressions) causes.push(...patternCauses(asNode(schema), path));
  yield;
  if (compileExpressions && causes.length === 0) causes.push(...celCauses(schema, path));
  // An unsupported keyword means another dialect of JSON Schema; further causes would only confuse.
  const foreign = causes.filter(({ message }) => message?.endsWith("is not supported"));
  return (foreign.length > 0 ? foreign : causes).sort((a, b) =>
    compare(`${a.field}: ${a.message}`, `${b.field}: ${b.message}`),
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function* visit(
  schema: SchemaNode,
  level: Level,
  path: string,
  depth: number,
  causes: StatusCause[],
  checksPatterns: boolean,
): Steps<void> {
  yield;
  if (depth > maxSchemaDepth) {
    causes.push(forbiddenCause(path, `must not nest deeper than ${maxSchemaDepth} levels`));
    return;
  }
  const { type, items, properties, additionalProperties } = schema;
  checkUnsupportedKeywords(schema, path, causes);
  checkListType(schema, path, causes);
  checkType(schema, level, path, causes);
  if (type === "array" && items === undefined) causes.push(requiredCause(`${path}.items`, "must be specified"));
  if (Array.isArray(items)) causes.push(forbiddenCause(`${path}.items`, "items must be a schema object and not an array"));
  else if (items !== undefined) yield* visit(asNode(items), "item", `${path}.items`, depth + 1, causes, checksPatterns);
  for (const [name, property] of entries(properties)) {
    const at = `${path}.properties[${name}]`;
    if (name === "metadata" && level === "root") checkRootMetadata(property, at, causes);
    else yield* visit(property, "field", at, depth + 1, causes, checksPatterns);
  }
  if (additionalProperties !== undefined) {
    const at = `${path}.additionalProperties`;
    // `additionalProperties: true` next to properties is accepted.
    if (additionalProperties !== true && entries(properties).length > 0) {
      causes.push(forbiddenCause(at, "additionalProperties and properties are mutual exclusive"));
    }
    if (level === "root") causes.push(forbiddenCause(at, "must not be used at the root"));
    if (schema["x-kubernetes-embedded-resource"] === true) {
      causes.push(forbiddenCause(at, "must not be used if x-kubernetes-embedded-resource is set"));
    }
    if (isJsonObject(additionalProperties)) yield* visit(additionalProperties, "field", at, depth + 1, causes, checksPatterns);
  }
  if (level === "root" || schema["x-kubernetes-embedded-resource"] === true) checkTypeMeta(schema, path, causes);
  yield* checkValueValidation(schema, path, depth, causes);
  yield;
  // At the root only, as in kube-apiserver: below it, value validation may mention fields that are not specified.
  if (level === "root") checkCompleteness(schema, path, causes);
  checkDefault(schema, path, causes, checksPatterns);
}

function checkType(schema: SchemaNode, level: Level, path: string, causes: StatusCause[]): void {
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
  }
}

function checkTypeMeta(schema: SchemaNode, path: string, causes: StatusCause[]): void {
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

function checkRootMetadata(metadata: SchemaNode, path: string, causes: StatusCause[]): void {
  const { type: _, default: ownDefault, properties, ...rest } = metadata;
  if (ownDefault !== undefined) causes.push(forbiddenCause(`${path}.default`, "must not be set in top-level metadata"));
  const others = entries(properties).filter(([name]) => name !== "name" && name !== "generateName");
  if (Object.keys(rest).length === 0 && others.length === 0) return;
  const detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
  causes.push(forbiddenCause(path, detail));
}

function checkDefault(node: SchemaNode, path: string, causes: StatusCause[], checksPatterns: boolean): void {
  if (node.default === undefined) return;
  const schema = checksPatterns ? (node as Schema) : withoutPatterns(node);
  const at = `${path}.default`;
  const { value, unknown } = prune(schema, schema.default);
  if (unknown.length > 0) causes.push(invalidCause(at, schema.default, "must not have unknown fields"));
  for (const cause of validate(schema, value)) {
    // Defaults further down may complete an incomplete default.
    if (cause.reason === "FieldValueRequired" && hasDefaultAt(node, cause.field ?? "")) continue;
    causes.push({ ...cause, field: cause.field === "" || cause.field === "<nil>" ? at : `${at}.${cause.field}` });
  }
}

function hasDefaultAt(schema: SchemaNode, field: string): boolean {
  let node = schema;
  for (const step of field.split(/[.[]/)) {
    node = step.endsWith("]") ? asNode(node.items) : asNode(asNode(node.properties)[step] ?? node.additionalProperties);
  }
  return node.default !== undefined;
}
