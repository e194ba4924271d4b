import { apiVersionOf, type DeepReadonly, deepFreeze, type KubernetesObject, prune } from "@keelson/api-machinery";
import type { ServedResource } from "../registry/served-resource.ts";
import type { StoredObject } from "../storage/store.ts";
import type { EncodedObject } from "./outcome.ts";

/** An object that is not stored (a dry run, a Scale, a review), encoded when somebody asks. Takes it over and freezes it. */
export function encodePlain(plain: KubernetesObject): EncodedObject {
  const { apiVersion, kind, metadata, ...rest } = plain;
  const object: DeepReadonly<KubernetesObject> = deepFreeze({ apiVersion, kind, metadata, ...rest });
  let bytes: Uint8Array | undefined;
  return {
    object,
    get bytes() {
      bytes ??= Buffer.from(JSON.stringify(object));
      return bytes;
    },
  };
}

/** A stored object in the version that `resource` serves. */
export function serve(resource: ServedResource, stored: StoredObject): EncodedObject {
  if (resource.conversion !== undefined) return encodePlain(resource.conversion.fromStorage(stored.object));
  const to = apiVersionOf(resource);
  // What was stored while another version was the storage version says so itself.
  const from = storedApiVersion(resource, stored);
  return from === to ? stored : convert(resource, stored, to);
}

/** In another version than the stored one: what that one does not know is left out. Its defaults are for requests, not for this. */
function convert(resource: ServedResource, stored: StoredObject, apiVersion: string): EncodedObject {
  return encodePlain(prune(resource.schema, { ...stored.object, apiVersion }).value as KubernetesObject);
}

const head = '{"apiVersion":"';

function storedApiVersion(resource: ServedResource, stored: StoredObject): string {
  const { bytes } = stored;
  const expected = resource.storageApiVersion;
  const end = head.length + expected.length;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 512)).toString("latin1");
  if (text.startsWith(expected, head.length) && text[end] === '"') return expected;
  return text.slice(head.length, text.indexOf('"', head.length));
}

/** Length of `{"apiVersion":"...","kind":"...",`, which every object of the resource begins with. */
export function typeMetaBytes(resource: ServedResource): number {
  return Buffer.byteLength(`{"apiVersion":${JSON.stringify(apiVersionOf(resource))},"kind":${JSON.stringify(resource.kind)},`);
}
