import {
  apiVersionOf,
  deepFreeze,
  type DeepReadonly,
  draft,
  type KubernetesObject,
  parseApiVersion,
} from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { applyDefaults, lacksDefaults, prune } from "@keelson/api-machinery/server";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { StoredObject } from "../../storage/store.ts";
import type { Call } from "../call.ts";
import type { EncodedObject } from "../outcome.ts";

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

/** A stored object in the version that the call's resource serves. What was stored before its kind got a default has it here too. */
export function serve(call: Pick<Call, "resource" | "resources">, stored: StoredObject): EncodedObject {
  const { resource } = call;
  if (resource.conversion !== undefined) return encodePlain(resource.conversion.fromStorage(stored.object));
  const to = apiVersionOf(resource);
  // What was stored while another version was the storage version says so itself.
  const from = storedApiVersion(resource, stored);
  const complete = resource.origin === "custom" ? withDefaults(schemaOf(call, from), stored) : stored;
  return from === to ? complete : convert(resource, complete, to);
}

/** In another version than the stored one: what that one does not know is left out. Its defaults are for requests, not for this. */
function convert(resource: ServedResource, stored: EncodedObject, apiVersion: string): EncodedObject {
  return encodePlain(prune(resource.schema, { ...stored.object, apiVersion }).value as KubernetesObject);
}

function schemaOf({ resource, resources }: Pick<Call, "resource" | "resources">, apiVersion: string): Schema | undefined {
  if (apiVersion === apiVersionOf(resource)) return resource.schema;
  const { group, version } = parseApiVersion(apiVersion);
  return resources.get(group, version, resource.plural)?.schema;
}

/** Whether an object has all its defaults in storage too; where not, even an update that changes nothing writes them. */
export function isStoredWhole(call: Pick<Call, "resource" | "resources">, stored: StoredObject): boolean {
  if (call.resource.origin !== "custom") return true;
  const schema = schemaOf(call, storedApiVersion(call.resource, stored));
  return schema === undefined || !lacksDefaults(schema, stored.object);
}

/** Stored objects as they are with their defaults, made once for all who read them. */
const completed = new WeakMap<StoredObject, { readonly schema: Schema; readonly encoded: EncodedObject }>();

/** With the defaults of the version that it is stored in. It stays as it is in storage until somebody writes it. */
function withDefaults(schema: Schema | undefined, stored: StoredObject): EncodedObject {
  if (schema === undefined || !lacksDefaults(schema, stored.object)) return stored;
  const known = completed.get(stored);
  if (known?.schema === schema) return known.encoded;
  const object = draft(stored.object) as KubernetesObject;
  applyDefaults(schema, object);
  const encoded = encodePlain(object);
  completed.set(stored, { schema, encoded });
  return encoded;
}

const head = '{"apiVersion":"';
/** How the objects stored in a version begin, by that version. */
const beginnings = new Map<string, Buffer>();

function storedApiVersion({ storageApiVersion: expected }: ServedResource, { bytes }: StoredObject): string {
  let beginning = beginnings.get(expected);
  if (beginning === undefined) {
    beginning = Buffer.from(`${head}${expected}"`);
    beginnings.set(expected, beginning);
  }
  if (beginning.compare(bytes, 0, Math.min(beginning.length, bytes.length)) === 0) return expected;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 512)).toString("latin1");
  return text.slice(head.length, text.indexOf('"', head.length));
}

/** Length of `{"apiVersion":"...","kind":"...",`, which every object of the resource begins with. */
export function typeMetaBytes(resource: ServedResource): number {
  return Buffer.byteLength(`{"apiVersion":${JSON.stringify(apiVersionOf(resource))},"kind":${JSON.stringify(resource.kind)},`);
}
