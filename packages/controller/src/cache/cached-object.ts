import {
  apiVersionOf,
  type DeepReadonly,
  deepFreeze,
  jsonEquals,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import { isMetadataOnly } from "./metadata-only.ts";

/** An object as the cache holds it: frozen, with `apiVersion` and `kind`, without `metadata.managedFields`. */
export type CachedObject = DeepReadonly<KubernetesObject>;

type Fields = Record<string, unknown>;

/** Of texts up to this length V8 keeps one copy by itself. */
const longestOfV8 = 10;
/** The longest text of which the cache keeps one copy for all objects; longer ones are seldom the same twice. */
const longestInterned = 64;
/** Texts kept for sharing, each in the one slot that its characters give: a newer one takes the place of an older. */
const interned: string[] = Array.from({ length: 4_096 }, () => "");

/**
 * Makes a {@link CachedObject} of what a server sent. Lists leave out `apiVersion` and `kind`; `managedFields` is about a third
 * of an object and no controller reads it.
 *
 * What has not changed since `old` is taken from it: an update costs the memory of what differs, and an untouched part of two
 * successive states is the same value (`old.spec === object.spec`). Short texts that many objects have are kept once.
 *
 * `sent` is used up where it is not frozen; a frozen one (of a server in this process) is shared as it is.
 */
export function cachedObject(
  sent: DeepReadonly<KubernetesObject>,
  type: ResourceType,
  old: CachedObject | undefined,
): CachedObject {
  let object = isMetadataOnly(type) ? metadataAlone(sent, type) : sent;
  const isWhole = object.kind !== undefined && object.apiVersion !== undefined && object.metadata.managedFields === undefined;
  if (Object.isFrozen(object)) return isWhole ? deepFreeze(object) : deepFreeze(completed(object, type));
  if (Object.isFrozen(object.metadata)) {
    // What a transform made of a shared object is new outside and frozen inside.
    object = completed(object, type);
  } else if (object.metadata.managedFields !== undefined) {
    // The last field of the metadata as servers write it; deleting the last one leaves the object as compact as it was.
    delete (object.metadata as { managedFields?: unknown }).managedFields;
  }
  const fields = object as { apiVersion?: string; kind?: string };
  fields.apiVersion ??= apiVersionOf(type);
  fields.kind ??= type.kind;
  return sharing(object, old) as CachedObject;
}

/** The server may have sent more, and calls it `PartialObjectMetadata` where it has not. */
function metadataAlone({ metadata }: DeepReadonly<KubernetesObject>, type: ResourceType): DeepReadonly<KubernetesObject> {
  const object = { apiVersion: apiVersionOf(type), kind: type.kind, metadata };
  return Object.isFrozen(metadata) ? Object.freeze(object) : object;
}

function completed(object: DeepReadonly<KubernetesObject>, type: ResourceType): DeepReadonly<KubernetesObject> {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, apiVersion: object.apiVersion ?? apiVersionOf(type), kind: object.kind ?? type.kind, metadata };
}

/**
 * `old` where the values are equal, else `fresh`, frozen, with the parts of `old` that are equal and one copy of every short text.
 * What of `fresh` is frozen is taken as it is.
 */
export function sharing(fresh: object, old: unknown): object {
  if (Object.isFrozen(fresh)) {
    if (isObject(old) && jsonEquals(fresh, old)) return old;
    for (const part of Object.values(fresh)) if (isObject(part)) sharing(part, undefined);
    return fresh;
  }
  return Array.isArray(fresh) ? sharingArray(fresh, old) : sharingFields(fresh as Fields, old);
}

function sharingArray(fresh: unknown[], old: unknown): object {
  const before = Array.isArray(old) ? (old as readonly unknown[]) : undefined;
  let isSame = before?.length === fresh.length;
  for (let index = 0; index < fresh.length; index++) {
    const value = fresh[index];
    const was = before?.[index];
    const kept = sharedValue(value, was);
    if (kept !== value) fresh[index] = kept;
    if (kept !== was) isSame = false;
  }
  return isSame && before !== undefined ? before : Object.freeze(fresh);
}

function sharingFields(fresh: Fields, old: unknown): object {
  const before = isObject(old) && !Array.isArray(old) ? (old as Fields) : undefined;
  let isSame = before !== undefined;
  let fields = 0;
  for (const name in fresh) {
    fields++;
    if (name === "__proto__") {
      // Reading and assigning it would reach for something else.
      isSame = false;
      deepFreeze(Object.getOwnPropertyDescriptor(fresh, name)?.value);
      continue;
    }
    const was = before?.[name];
    const kept = sharedValue(fresh[name], was);
    // Equal texts may be two; the one that is kept is the one that others share.
    if (typeof kept === "string" || isObject(kept)) fresh[name] = kept;
    if (kept !== was || kept === undefined) isSame = false;
  }
  if (isSame && before !== undefined && Object.keys(before).length === fields) return before;
  return Object.freeze(fresh);
}

function sharedValue(value: unknown, was: unknown): unknown {
  if (isObject(value)) return sharing(value, was);
  return value === was ? was : typeof value === "string" ? oneCopyOf(value) : value;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function oneCopyOf(text: string): string {
  const { length } = text;
  if (length <= longestOfV8 || length > longestInterned) return text;
  let slot = length;
  for (let at = length - 1; at >= 0; at -= 3) slot = (Math.imul(slot, 31) + text.charCodeAt(at)) & 4_095;
  const known = interned[slot];
  if (known === text) return known;
  interned[slot] = text;
  return text;
}
