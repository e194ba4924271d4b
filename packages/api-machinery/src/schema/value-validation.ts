import { isJsonObject, jsonEquals } from "../objects/json.ts";
import { forbiddenCause, requiredCause } from "../protocol/field-causes.ts";
import type { StatusCause } from "../protocol/status.ts";
import type { Steps } from "../values/steps.ts";
import { asNode, entries, list, maxSchemaDepth, type SchemaNode } from "./schema-node.ts";
import { checkUnsupportedKeywords } from "./unsupported-keywords.ts";

const intOrString = [{ type: "integer" }, { type: "string" }];

/** Checks the branches of allOf, anyOf, oneOf and not, which may only validate values. */
export function* checkValueValidation(schema: SchemaNode, path: string, depth: number, causes: StatusCause[]): Steps<void> {
  const isIntOrString = schema["x-kubernetes-int-or-string"] === true;
  if (!isIntOrString || !jsonEquals(schema.anyOf, intOrString))
    yield* visitNestedList(schema.anyOf, `${path}.anyOf`, depth, causes);
  for (const [index, branch] of list(schema.allOf).entries()) {
    const { anyOf, ...others } = asNode(branch);
    const isCustomary = isIntOrString && index === 0 && jsonEquals(anyOf, intOrString);
    yield* visitNested(isCustomary ? others : asNode(branch), `${path}.allOf[${index}]`, depth + 1, causes);
  }
  yield* visitNestedList(schema.oneOf, `${path}.oneOf`, depth, causes);
  if (isJsonObject(schema.not)) yield* visitNested(schema.not, `${path}.not`, depth + 1, causes);
}

function* visitNestedList(branches: unknown, path: string, depth: number, causes: StatusCause[]): Steps<void> {
  for (const [index, branch] of list(branches).entries()) {
    yield* visitNested(asNode(branch), `${path}[${index}]`, depth + 1, causes);
  }
}

/** Keywords that describe structure and are therefore not allowed below allOf, anyOf, oneOf and not. */
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

function* visitNested(schema: SchemaNode, path: string, depth: number, causes: StatusCause[]): Steps<void> {
  yield;
  if (depth > maxSchemaDepth) {
    causes.push(forbiddenCause(path, `must not nest deeper than ${maxSchemaDepth} levels`));
    return;
  }
  for (const [key, detail] of Object.entries(structuralKeywords)) {
    const value = schema[key];
    if (value !== undefined && value !== "" && value !== false) causes.push(forbiddenCause(`${path}.${key}`, detail));
  }
  checkUnsupportedKeywords(schema, path, causes);
  if (isJsonObject(schema.items)) yield* visitNested(schema.items, `${path}.items`, depth + 1, causes);
  for (const [name, property] of entries(schema.properties)) {
    const at = `${path}.properties[${name}]`;
    if (name === "metadata") causes.push(forbiddenCause(at, "must not be specified in a nested context"));
    yield* visitNested(property, at, depth + 1, causes);
  }
  yield* checkValueValidation(schema, path, depth, causes);
}

/** Checks that every field that value validation mentions is specified outside it. */
export function checkCompleteness(schema: SchemaNode, path: string, causes: StatusCause[]): void {
  const branches: [unknown, string][] = [[schema.not, "not"]];
  for (const key of ["allOf", "anyOf", "oneOf"]) {
    list(schema[key]).forEach((branch, index) => branches.push([branch, `${key}[${index}]`]));
  }
  for (const [branch, at] of branches) complete(asNode(branch), schema, `${path}.${at}`, path, 0, causes);
}

function complete(
  nested: SchemaNode,
  main: SchemaNode,
  nestedPath: string,
  mainPath: string,
  depth: number,
  causes: StatusCause[],
): void {
  if (depth > maxSchemaDepth) return;
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
