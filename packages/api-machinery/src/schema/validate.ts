import {
  childPath,
  duplicateCause,
  fieldCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  tooManyCause,
} from "../protocol/field-causes.ts";
import { isJsonObject, jsonEquals } from "../objects/json.ts";
import type { StatusCause } from "../protocol/status.ts";
import { checkEmbeddedResource } from "./embedded-resource.ts";
import { evaluateRules, type RuleEvaluator } from "./rules/evaluate-rules.ts";
import { canonical, correlateItems, identityOf } from "./list-identity.ts";
import type { Schema } from "./schema.ts";
import { runSteps, type Steps } from "../values/steps.ts";
import { checkType } from "./validate-type.ts";
import { checkNumber, checkString } from "./validate-scalar.ts";

/** Options of {@link validate}. */
export interface ValidateOptions {
  /** Evaluates CEL rules, on values without faults of types, required fields or sizes. Default: rules are not evaluated. */
  readonly rules?: RuleEvaluator | undefined;
  /**
   * The value before an update. Unchanged parts are not rejected (KEP-4008, validation ratcheting), so a stricter schema does
   * not lock existing objects. Default: everything is checked.
   */
  readonly oldValue?: unknown;
}

const maxDepth = 256;
const maxCauses = 1_000;
/** Values without parts that count as one object. */
const scalarsPerStep = 10;

/**
 * Validates a value against a structural schema as kube-apiserver validates a custom resource, with the paths and messages of
 * version 1.35. Unknown fields are ignored (`prune` drops them). `path` is the path of the value; `""` for a whole object.
 *
 * **Guarantees**: takes time linear in the size of the value. A value nested deeper than 256 levels is rejected.
 */
export function validate(schema: Schema, value: unknown, path = "", options: ValidateOptions = {}): StatusCause[] {
  return runSteps(validateInSteps(schema, value, path, options));
}

/** {@link validate} in steps, at least one for each object and list. The rules are evaluated in one step. */
export function* validateInSteps(
  schema: Schema,
  value: unknown,
  path = "",
  options: ValidateOptions = {},
): Steps<StatusCause[]> {
  const found: StatusCause[] = [];
  yield* check(schema, value, options.oldValue, path, 0, found);
  const causes = yield* withDuplicatesLast(found, schema, options.oldValue);
  if (options.rules === undefined) return causes;
  if (!causes.some(isBlocking)) evaluateRules(schema, value, options.oldValue, path, options.rules, causes);
  else if (hasRules(schema)) causes.push(unchecked);
  return causes;
}

/** kube-apiserver checks the keys of lists after everything else, and rejects none if the old object has duplicates anywhere. */
function* withDuplicatesLast(found: StatusCause[], schema: Schema, oldValue: unknown): Steps<StatusCause[]> {
  const duplicates = found.filter(isDuplicate);
  if (duplicates.length === 0) return found;
  const others = found.filter((cause) => !isDuplicate(cause));
  const before: StatusCause[] = [];
  if (oldValue !== undefined) yield* check(schema, oldValue, undefined, "", 0, before);
  return before.some(isDuplicate) ? others : [...others, ...duplicates];
}

function isDuplicate({ reason }: StatusCause): boolean {
  return reason === "FieldValueDuplicate";
}

const blocking: readonly StatusCause["reason"][] = [
  "FieldValueNotSupported",
  "FieldValueRequired",
  "FieldValueTooLong",
  "FieldValueTooMany",
  "FieldValueTypeInvalid",
];

/** Whether kube-apiserver checks no rules because of a failure. */
function isBlocking({ reason }: StatusCause): boolean {
  return blocking.includes(reason);
}

/** kube-apiserver's note about rules that were not checked. The whole object has no path; Go prints nil. */
const unchecked = fieldCause(
  "FieldValueInvalid",
  "<nil>",
  "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
);

/** Whether a schema has CEL rules at any depth. */
function hasRules(schema: Schema): boolean {
  const { items, properties = {}, additionalProperties } = schema;
  return (
    (schema["x-kubernetes-validations"]?.length ?? 0) > 0 ||
    (items !== undefined && hasRules(items)) ||
    Object.values(properties).some(hasRules) ||
    (typeof additionalProperties === "object" && hasRules(additionalProperties))
  );
}

function* check(schema: Schema, value: unknown, old: unknown, path: string, depth: number, causes: StatusCause[]): Steps<void> {
  if (causes.length >= maxCauses) return;
  // A part that is shared with the old value has not changed.
  if (value === old && typeof value === "object" && value !== null) return;
  if (depth > maxDepth) {
    causes.push(fieldCause("FieldValueInvalid", path, `Invalid value: nested deeper than ${maxDepth} levels`));
    return;
  }
  const before = causes.length;
  if (checkType(schema, value, path, causes)) {
    checkStringOrNumber(schema, value, path, causes);
    if (Array.isArray(value)) yield* checkArray(schema, value, old, path, depth, causes);
    else if (isJsonObject(value)) yield* checkObject(schema, value, old, path, depth, causes);
    checkAnyValue(schema, value, path, depth, causes);
  }
  withoutUnchanged(value, old, before, causes);
}

/** {@link check} for the values that are neither objects nor lists, and most numerous. */
function checkScalar(schema: Schema, value: unknown, old: unknown, path: string, depth: number, causes: StatusCause[]): void {
  if (causes.length >= maxCauses) return;
  const before = causes.length;
  if (checkType(schema, value, path, causes)) {
    checkStringOrNumber(schema, value, path, causes);
    checkAnyValue(schema, value, path, depth, causes);
  }
  withoutUnchanged(value, old, before, causes);
}

function checkStringOrNumber(schema: Schema, value: unknown, path: string, causes: StatusCause[]): void {
  if (typeof value === "string") checkString(schema, value, path, causes);
  else if (typeof value === "number") checkNumber(schema, value, path, causes);
}

/** Drops the causes after the first `before` if the value has not changed. Compared only if there are causes: ratcheting costs nothing for valid objects. */
function withoutUnchanged(value: unknown, old: unknown, before: number, causes: StatusCause[]): void {
  if (causes.length > before && old !== undefined && jsonEquals(value, old)) causes.length = before;
}

function checkAnyValue(schema: Schema, value: unknown, path: string, depth: number, causes: StatusCause[]): void {
  if (schema.enum && !schema.enum.some((allowed) => jsonEquals(allowed, value))) {
    const supported = schema.enum.map((allowed) => (typeof allowed === "string" ? allowed : JSON.stringify(allowed)));
    causes.push(notSupportedCause(path, value, supported));
  }
  if (schema.allOf || schema.anyOf || schema.oneOf || schema.not) checkLogic(schema, value, path, depth, causes);
}

function isContainer(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function* checkArray(
  schema: Schema,
  value: unknown[],
  old: unknown,
  path: string,
  depth: number,
  causes: StatusCause[],
): Steps<void> {
  yield;
  const { minItems, maxItems, items } = schema;
  if (items) {
    const oldItem = correlateItems(schema, old);
    for (let index = 0; index < value.length; index++) {
      const item = value[index];
      if (isContainer(item)) yield* check(items, item, oldItem?.(item), `${path}[${index}]`, depth + 1, causes);
      else checkScalar(items, item, oldItem?.(item), `${path}[${index}]`, depth + 1, causes);
      if (index % scalarsPerStep === scalarsPerStep - 1) yield;
    }
  }
  if (minItems !== undefined && value.length < minItems) {
    causes.push(invalidCause(path, value.length, `${path} in body should have at least ${minItems} items`));
  }
  if (maxItems !== undefined && value.length > maxItems) causes.push(tooManyCause(path, value.length, maxItems));
  const listType = schema["x-kubernetes-list-type"];
  if (listType === "set" || listType === "map") checkUnique(schema, value, path, causes);
  else if (schema.uniqueItems === true && new Set(value.map(canonical)).size < value.length) {
    causes.push(invalidCause(path, "array", `${path} in body shouldn't contain duplicates`));
  }
}

function checkUnique(schema: Schema, value: readonly unknown[], path: string, causes: StatusCause[]): void {
  const keys = schema["x-kubernetes-list-type"] === "map" ? (schema["x-kubernetes-list-map-keys"] ?? []) : undefined;
  const seen = new Set<string>();
  for (let index = 0; index < value.length; index++) {
    const item = value[index];
    const text = keys === undefined ? canonical(item) : identityOf(schema, item, keys);
    if (text === undefined) continue;
    if (seen.has(text)) causes.push(duplicateCause(`${path}[${index}]`, keys === undefined ? item : JSON.parse(text)));
    seen.add(text);
  }
}

function* checkObject(
  schema: Schema,
  value: Record<string, unknown>,
  old: unknown,
  path: string,
  depth: number,
  causes: StatusCause[],
): Steps<void> {
  yield;
  let checked = 0;
  const { properties, additionalProperties, required, minProperties, maxProperties } = schema;
  const oldObject = isJsonObject(old) ? old : undefined;
  const keys = Object.keys(value);
  if (minProperties !== undefined && keys.length < minProperties) {
    causes.push(invalidCause(path, keys.length, `${path} in body should have at least ${minProperties} properties`));
  }
  if (maxProperties !== undefined && keys.length > maxProperties) causes.push(tooManyCause(path, keys.length, maxProperties));
  for (const key of keys) {
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (!child) {
      // A field that the schema does not specify is rejected here only if pruning kept it.
      if (additionalProperties === false) causes.push(forbiddenProperty(path, key));
      continue;
    }
    const before = oldObject && Object.hasOwn(oldObject, key) ? oldObject[key] : undefined;
    const field = value[key];
    if (isContainer(field)) yield* check(child, field, before, childPath(path, key), depth + 1, causes);
    else checkScalar(child, field, before, childPath(path, key), depth + 1, causes);
    if (++checked % scalarsPerStep === 0) yield;
  }
  if (required) {
    for (const key of required)
      if (!Object.hasOwn(value, key) || value[key] === undefined) causes.push(requiredCause(childPath(path, key)));
  }
  if (schema["x-kubernetes-embedded-resource"] === true) checkEmbeddedResource(value, path, causes);
}

function forbiddenProperty(path: string, key: string): StatusCause {
  return invalidCause(path, key, `${path}.${key} in body is a forbidden property`);
}

function checkLogic(schema: Schema, value: unknown, path: string, depth: number, causes: StatusCause[]): void {
  const { allOf, anyOf, oneOf, not } = schema;
  const attempt = (branch: Schema): StatusCause[] => {
    const faults: StatusCause[] = [];
    runSteps(check(branch, value, undefined, path, depth + 1, faults));
    return faults;
  };
  const fail = (text: string): void => {
    // kube-apiserver reports no field here; the message contains it.
    causes.push(invalidCause("<nil>", "", `${JSON.stringify(path)} ${text}`));
  };
  // An int-or-string is checked by its extension; its customary anyOf adds nothing.
  if (anyOf && schema["x-kubernetes-int-or-string"] !== true) {
    const results = anyOf.map(attempt);
    if (!results.some((faults) => faults.length === 0)) {
      fail("must validate at least one schema (anyOf)");
      causes.push(...fewest(results));
    }
  }
  if (oneOf) {
    const results = oneOf.map(attempt);
    const valid = results.filter((faults) => faults.length === 0).length;
    if (valid === 0) {
      fail("must validate one and only one schema (oneOf). Found none valid");
      causes.push(...fewest(results));
    } else if (valid > 1) fail(`must validate one and only one schema (oneOf). Found ${valid} valid alternatives`);
  }
  if (allOf) {
    const faults = allOf.flatMap(attempt);
    if (faults.length > 0) {
      causes.push(...faults);
      fail("must validate all the schemas (allOf)");
    }
  }
  if (not && attempt(not).length === 0) fail("must not validate the schema (not)");
}

function fewest(results: readonly StatusCause[][]): StatusCause[] {
  return results.reduce((best, faults) => (faults.length < best.length ? faults : best), results[0] ?? []);
}
