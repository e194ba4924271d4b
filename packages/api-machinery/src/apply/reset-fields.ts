import { isJsonObject, type JsonObject, setOwn } from "../objects/json.ts";
import { type FieldSet, fieldSet } from "../field-sets/field-set.ts";
import { fieldElement } from "../field-sets/path-element.ts";

/** The fields that an endpoint resets before it stores, so that they are never owned through it. Paths of field names. */
export type ResetFields = readonly (readonly string[])[];

const nothing: ResetFields = [];
const status: ResetFields = [["status"]];
const allButStatus: ResetFields = [["apiVersion"], ["kind"], ["metadata"], ["spec"]];
const spec: ResetFields = [["spec"]];

/**
 * Returns the fields that an endpoint resets: `status` for the object itself, if there is a status subresource; everything
 * else for the status. Built-in kinds accept metadata through their status as well.
 */
export function resetFieldsOf(subresource: string, hasStatus: boolean, isBuiltIn: boolean): ResetFields {
  if (subresource === "status") return isBuiltIn ? spec : allButStatus;
  return subresource === "" && hasStatus ? status : nothing;
}

const sets = new WeakMap<ResetFields, FieldSet>();

/** The fields as a set. */
export function resetFieldSet(fields: ResetFields): FieldSet {
  let set = sets.get(fields);
  if (set === undefined) {
    set = fieldSet(...fields.map((path) => path.map(fieldElement)));
    sets.set(fields, set);
  }
  return set;
}

/** The value without the fields. */
export function withoutResetFields(value: JsonObject, fields: ResetFields): JsonObject {
  let result = value;
  for (const path of fields) result = withoutPath(result, path, 0);
  return result;
}

function withoutPath(value: JsonObject, path: readonly string[], depth: number): JsonObject {
  const name = path[depth];
  if (name === undefined || !Object.hasOwn(value, name)) return value;
  const copy: JsonObject = {};
  for (const key of Object.keys(value)) if (key !== name) setOwn(copy, key, value[key]);
  if (depth === path.length - 1) return copy;
  const child = value[name];
  if (!isJsonObject(child)) return value;
  const rest = withoutPath(child, path, depth + 1);
  if (rest === child) return value;
  setOwn(copy, name, rest);
  return copy;
}
