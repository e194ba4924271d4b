import { apiVersionOf, type FieldManagementContext, type KubernetesObject } from "@keelson/api-machinery";
import type { ServedResource } from "../registry/served-resource.ts";
import { type Call, timestamp } from "./call.ts";
import type { WriteOptions } from "./write-options.ts";

/** What field management has to know of a write. */
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

/** The same object as it is stored: another `apiVersion` where another version is the storage version. */
export function toStorageVersion(resource: ServedResource, object: KubernetesObject): KubernetesObject {
  if (resource.conversion !== undefined) return resource.conversion.toStorage(object);
  return object.apiVersion === resource.storageApiVersion ? object : { ...object, apiVersion: resource.storageApiVersion };
}
