import { apiVersionOf, type DeepReadonly, deepFreeze, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { isMetadataOnly } from "./metadata-only.ts";

/** An object as the cache holds it: frozen, with `apiVersion` and `kind`, without `metadata.managedFields`. */
export type CachedObject = DeepReadonly<KubernetesObject>;

type Fields = Record<string, unknown>;

/** The longest text of which the cache keeps one copy for all objects; longer ones are seldom the same twice. */
const longestInterned = 64;
/** Texts kept for sharing; beyond it they are gathered anew. */
const mostInterned = 2_000;
const interned = new Map<string, string>();

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
  return compacted(object, old) as CachedObject;
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

/*
 * Most of an update is as it was. So texts are only looked up, and objects only tested and frozen, where something differs:
 * comparing costs a fraction of that.
 */

/** `old` where the values are equal, else `fresh`, frozen, with the parts of `old` that are equal. */
function compacted(fresh: object, old: unknown): object {
  return Array.isArray(fresh) ? compactedArray(fresh, old) : compactedFields(fresh as Fields, old);
}

function compactedArray(fresh: unknown[], old: unknown): object {
  const before = Array.isArray(old) ? (old as readonly unknown[]) : undefined;
  let isSame = before?.length === fresh.length;
  let isShared: boolean | undefined;
  for (let index = 0; index < fresh.length; index++) {
    const value = fresh[index];
    const was = before?.[index];
    let kept = value;
    if (typeof value === "object" && value !== null) {
      kept = compacted(value, was);
      if (kept !== value && !(isShared ??= Object.isFrozen(fresh))) fresh[index] = kept;
    }
    if (kept !== was) isSame = false;
  }
  if (isSame && before !== undefined) return before;
  if (isShared ?? Object.isFrozen(fresh)) return deepFreeze(fresh);
  for (let index = 0; index < fresh.length; index++) {
    const value = fresh[index];
    if (typeof value === "string") fresh[index] = oneCopyOf(value);
  }
  return Object.freeze(fresh);
}

function compactedFields(fresh: Fields, old: unknown): object {
  const before = typeof old === "object" && old !== null && !Array.isArray(old) ? (old as Fields) : undefined;
  let isSame = before !== undefined;
  let isShared: boolean | undefined;
  let fields = 0;
  for (const name in fresh) {
    fields++;
    if (name === "__proto__") {
      // Reading and assigning it would reach for something else.
      isSame = false;
      deepFreeze(Object.getOwnPropertyDescriptor(fresh, name)?.value);
      continue;
    }
    const value = fresh[name];
    const was = before?.[name];
    let kept = value;
    if (typeof value === "object" && value !== null) {
      kept = compacted(value, was);
      if (kept !== value && !(isShared ??= Object.isFrozen(fresh))) fresh[name] = kept;
    }
    if (kept !== was || kept === undefined) isSame = false;
  }
  if (isSame && before !== undefined && Object.keys(before).length === fields) return before;
  if (isShared ?? Object.isFrozen(fresh)) return deepFreeze(fresh);
  for (const name in fresh) {
    const value = fresh[name];
    // Equal texts may be two; the one that is kept is the one that others share.
    if (typeof value === "string" && name !== "__proto__")
      fresh[name] = value === before?.[name] ? before[name] : oneCopyOf(value);
  }
  return Object.freeze(fresh);
}

function oneCopyOf(text: string): string {
  if (text.length > longestInterned) return text;
  const known = interned.get(text);
  if (known !== undefined) return known;
  if (interned.size >= mostInterned) interned.clear();
  interned.set(text, text);
  return text;
}
