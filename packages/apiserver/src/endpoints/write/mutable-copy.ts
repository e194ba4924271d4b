import { type DeepReadonly, draft, type KubernetesObject, setOwn } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";

/**
 * Returns a mutable copy of an object. Parts that no request changes in place stay shared and frozen: managedFields from storage and,
 * in a write to `status`, all stored fields except the status.
 */
export function mutableCopy(object: DeepReadonly<KubernetesObject>, isStatus: boolean): KubernetesObject {
  const result: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(object)) {
    if (name === "metadata") setOwn(result, name, copyMetadata(value));
    else setOwn(result, name, isStatus && name !== "status" && isFrozenValue(value) ? value : draft(value));
  }
  return result as unknown as KubernetesObject;
}

function copyMetadata(metadata: unknown): unknown {
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata)) return draft(metadata);
  const result: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(metadata)) {
    setOwn(result, name, name === "managedFields" && isFrozenValue(value) ? value : draft(value));
  }
  return result;
}

/** Whether a value is a frozen object or list, that is, comes from storage and not from the request. */
export function isFrozenValue(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.isFrozen(value);
}

/** Whether only type, metadata and status of an object come from the request. */
export function changesStatusOnly(object: DeepReadonly<KubernetesObject>): boolean {
  for (const [name, value] of Object.entries(object)) if (!ownFields.has(name) && !isFrozenValue(value)) return false;
  return true;
}

const ownFields: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata", "status"]);
const statusSchemas = new WeakMap<Schema, Schema>();

/** The schema for a write to `status`: fields that such a write does not change are not checked. Memoized: schemas are immutable. */
export function statusSchemaOf(schema: Schema): Schema {
  let result = statusSchemas.get(schema);
  if (result === undefined) {
    const anything: Schema = { "x-kubernetes-preserve-unknown-fields": true };
    const properties: Record<string, Schema> = {};
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      setOwn(properties, name, ownFields.has(name) ? property : anything);
    }
    const required = schema.required?.filter((name) => ownFields.has(name));
    result = { ...schema, properties, ...(required === undefined ? {} : { required }) };
    statusSchemas.set(schema, result);
  }
  return result;
}
