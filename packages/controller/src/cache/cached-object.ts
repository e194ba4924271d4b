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

/** V8 interns strings up to this length by itself. */
const maxInternedByV8 = 10;
/** Maximum length of strings shared between objects; longer ones rarely repeat. */
const maxInterned = 64;
/** Shared strings, in slots given by a hash of their characters. A new string replaces the old one in its slot. */
const interned: string[] = Array.from({ length: 4_096 }, () => "");

/**
 * Creates a {@link CachedObject} from what a server sent. Lists omit `apiVersion` and `kind`; `managedFields` is about a third
 * of an object and no controller reads it.
 *
 * Parts that have not changed since `old` are shared with it: an update costs only the memory of what changed, and an unchanged part of two
 * successive states is the same value (`old.spec === object.spec`). Short strings that many objects have are stored once.
 *
 * `sent` is modified unless it is frozen. A frozen object, from a server in this process, is shared as it is.
 */
export function cachedObject(
  sent: DeepReadonly<KubernetesObject>,
  type: ResourceType,
  old: CachedObject | undefined,
): CachedObject {
  let object = isMetadataOnly(type) ? onlyMetadata(sent, type) : sent;
  const isWhole = object.kind !== undefined && object.apiVersion !== undefined && object.metadata.managedFields === undefined;
  if (Object.isFrozen(object)) return isWhole ? deepFreeze(object) : deepFreeze(completed(object, type));
  if (Object.isFrozen(object.metadata)) {
    // A transform of a shared object returns a new object with frozen parts.
    object = completed(object, type);
  } else if (object.metadata.managedFields !== undefined) {
    // Servers write it as the last field. Deleting the last field keeps the object in fast mode.
    delete (object.metadata as { managedFields?: unknown }).managedFields;
  }
  const fields = object as { apiVersion?: string; kind?: string };
  fields.apiVersion ??= apiVersionOf(type);
  fields.kind ??= type.kind;
  return shareUnchanged(object, old) as CachedObject;
}

/** The server may have sent the complete object, or one of kind `PartialObjectMetadata`. */
function onlyMetadata({ metadata }: DeepReadonly<KubernetesObject>, type: ResourceType): DeepReadonly<KubernetesObject> {
  const object = { apiVersion: apiVersionOf(type), kind: type.kind, metadata };
  return Object.isFrozen(metadata) ? Object.freeze(object) : object;
}

function completed(object: DeepReadonly<KubernetesObject>, type: ResourceType): DeepReadonly<KubernetesObject> {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, apiVersion: object.apiVersion ?? apiVersionOf(type), kind: object.kind ?? type.kind, metadata };
}

/**
 * Returns `old` if the values are equal, else `fresh`, frozen, sharing equal parts with `old` and short strings with all objects.
 * Frozen parts of `fresh` are kept as they are.
 */
export function shareUnchanged(fresh: object, old: unknown): object {
  if (Object.isFrozen(fresh)) {
    if (isObject(old) && jsonEquals(fresh, old)) return old;
    for (const part of Object.values(fresh)) if (isObject(part)) shareUnchanged(part, undefined);
    return fresh;
  }
  return Array.isArray(fresh) ? shareElements(fresh, old) : shareFields(fresh as Fields, old);
}

function shareElements(fresh: unknown[], old: unknown): object {
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

function shareFields(fresh: Fields, old: unknown): object {
  const before = isObject(old) && !Array.isArray(old) ? (old as Fields) : undefined;
  let isSame = before !== undefined;
  let fields = 0;
  for (const name in fresh) {
    fields++;
    if (name === "__proto__") {
      // Reading or assigning it would access the prototype.
      isSame = false;
      deepFreeze(Object.getOwnPropertyDescriptor(fresh, name)?.value);
      continue;
    }
    const was = before?.[name];
    const kept = sharedValue(fresh[name], was);
    // Equal strings may be distinct copies; keep the shared one.
    if (typeof kept === "string" || isObject(kept)) fresh[name] = kept;
    if (kept !== was || kept === undefined) isSame = false;
  }
  if (isSame && before !== undefined && Object.keys(before).length === fields) return before;
  return Object.freeze(fresh);
}

function sharedValue(value: unknown, was: unknown): unknown {
  if (isObject(value)) return shareUnchanged(value, was);
  return value === was ? was : typeof value === "string" ? internString(value) : value;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function internString(text: string): string {
  const { length } = text;
  if (length <= maxInternedByV8 || length > maxInterned) return text;
  let slot = length;
  for (let at = length - 1; at >= 0; at -= 3) slot = (Math.imul(slot, 31) + text.charCodeAt(at)) & 4_095;
  const known = interned[slot];
  if (known === text) return known;
  interned[slot] = text;
  return text;
}
