import { apiVersionOf, type KubernetesObject } from "@keelson/api-machinery";
import type { FieldManagementContext } from "@keelson/api-machinery/server";
import type { Call } from "../call.ts";
import { convertCustomObjects } from "../object/convert-object.ts";
import type { WriteOptions } from "./write-options.ts";

/** The inputs of field management for a write. */
export function fieldContext(
  call: Call,
  options: WriteOptions,
  subresource: string,
  time = call.timestamps.now(),
): FieldManagementContext {
  const { resource } = call;
  return {
    schema: resource.schema,
    manager: options.fieldManager,
    apiVersion: apiVersionOf(resource),
    subresource,
    time,
    hasStatus: resource.hasStatus,
    isBuiltIn: resource.origin === "builtin",
  };
}

/**
 * Converts an object to its storage version. Returns a promise only for a custom object of another version; it rejects with a `StatusError`
 * if a conversion webhook fails.
 */
export function toStorageVersion(
  { resource, resources }: Call,
  object: KubernetesObject,
): KubernetesObject | Promise<KubernetesObject> {
  if (resource.conversion !== undefined) return resource.conversion.toStorage(object);
  const { storageApiVersion } = resource;
  if (object.apiVersion === storageApiVersion) return object;
  return convertCustomObjects(resource, resources, [object], storageApiVersion).then(([converted = object]) => converted);
}
