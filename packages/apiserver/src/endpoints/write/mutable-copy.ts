import { type DeepReadonly, draft, type KubernetesObject, setOwn } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";

/**
 * A copy of an object that may be changed, but for what no request changes in place: managedFields that were read from storage or
 * made here, and of a write through `status` all fields that are stored ones. What is stored is frozen, what a request brings is not.
 */
export function ownCopy(object: DeepReadonly<KubernetesObject>, isStatus: boolean): KubernetesObject {
  const result: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(object)) {
    if (name === "metadata") setOwn(result, name, copyMetadata(value));
    else setOwn(result, name, isStatus && name !== "status" && isStored(value) ? value : draft(value));
  }
  return result as unknown as KubernetesObject;
}

function copyMetadata(metadata: unknown): unknown {
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata)) return draft(metadata);
  const result: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(metadata)) {
    setOwn(result, name, name === "managedFields" && isStored(value) ? value : draft(value));
  }
  return result;
}

/** Whether a value is none of a request's own: an object or a list that is frozen. */
export function isStored(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.isFrozen(value);
}

/** Whether an object brings nothing of its own but type, metadata and status: then a write through `status` loses nothing else. */
export function bringsStatusOnly(object: DeepReadonly<KubernetesObject>): boolean {
  for (const [name, value] of Object.entries(object)) if (!ownFields.has(name) && !isStored(value)) return false;
  return true;
}

const ownFields: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata", "status"]);
const statusSchemas = new WeakMap<Schema, Schema>();

/** The schema as far as a write through `status` is concerned: what it leaves as it was may be anything. */
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
