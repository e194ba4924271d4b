import { apiVersionOf, type KubernetesObject, parseApiVersion } from "@keelson/api-machinery";
import { type FieldManagementContext, prune } from "@keelson/api-machinery/server";
import { type Call, timestamp } from "../call.ts";
import type { WriteOptions } from "./write-options.ts";

/** The inputs of field management for a write. */
export function fieldContext(call: Call, options: WriteOptions, subresource: string): FieldManagementContext {
  const { resource } = call;
  return {
    schema: resource.schema,
    manager: options.fieldManager,
    apiVersion: apiVersionOf(resource),
    subresource,
    time: timestamp(call.clock),
    hasStatus: resource.hasStatus,
    isBuiltIn: resource.origin === "builtin",
  };
}

/**
 * Converts an object to its storage version, pruning fields that version does not have. Conversion strategy `None` changes nothing but
 * `apiVersion`.
 */
export function toStorageVersion({ resource, resources }: Call, object: KubernetesObject): KubernetesObject {
  if (resource.conversion !== undefined) return resource.conversion.toStorage(object);
  const { storageApiVersion } = resource;
  if (object.apiVersion === storageApiVersion) return object;
  const { group, version } = parseApiVersion(storageApiVersion);
  const storage = resources.get(group, version, resource.plural);
  const converted = { ...object, apiVersion: storageApiVersion };
  return storage === undefined ? converted : prune(storage.schema, converted).value;
}
