import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import { isMetadataOnly } from "./metadata-only.ts";

/** An object's key as one string, unique within its kind. Neither part can hold a slash. */
export function idOf(key: ObjectKey): string {
  return `${key.namespace ?? ""}/${key.name}`;
}

/** {@link idOf} of an object. */
export function idOfObject(object: DeepReadonly<KubernetesObject>): string {
  return `${object.metadata.namespace ?? ""}/${object.metadata.name ?? ""}`;
}

/** The key of an object: what `get`, `delete` and a watch's `map` take. */
export function objectKey(object: DeepReadonly<KubernetesObject>): ObjectKey {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? { name: name ?? "" } : { namespace, name: name ?? "" };
}

/** A kind as one string: what two values that name the same kind have in common. */
export function typeId(type: ResourceType): string {
  return `${type.plural}.${type.version}.${type.group}${isMetadataOnly(type) ? " (metadata)" : ""}`;
}
