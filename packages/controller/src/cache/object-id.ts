import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import { isMetadataOnly } from "./metadata-only.ts";

/** A key as a string, unique within its kind: neither part can contain a slash. */
export function idOf(key: ObjectKey): string {
  return `${key.namespace ?? ""}/${key.name}`;
}

/** {@link idOf} of an object. */
export function idOfObject(object: DeepReadonly<KubernetesObject>): string {
  return `${object.metadata.namespace ?? ""}/${object.metadata.name ?? ""}`;
}

/** The key of an object, for `get`, `delete` and the `map` function of a watch. */
export function objectKey(object: DeepReadonly<KubernetesObject>): ObjectKey {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? { name: name ?? "" } : { namespace, name: name ?? "" };
}

/** A kind as a string, equal for all {@link ResourceType} values of the same kind. */
export function typeId(type: ResourceType): string {
  return `${type.plural}.${type.version}.${type.group}${isMetadataOnly(type) ? " (metadata)" : ""}`;
}
