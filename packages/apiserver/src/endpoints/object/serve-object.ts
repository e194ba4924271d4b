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

/** Wraps an object that is not stored (a dry run, a Scale, a review). Freezes it, and encodes it on first use. */
export function encodeUnstored(plain: KubernetesObject): EncodedObject {
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

/**
 * A stored object in the version that the call's resource serves, with the current defaults: an object may be older than a default of
 * its CRD.
 */
export function serve(call: Pick<Call, "resource" | "resources">, stored: StoredObject): EncodedObject {
  const { resource } = call;
  if (resource.conversion !== undefined) return encodeUnstored(resource.conversion.fromStorage(stored.object));
  const to = apiVersionOf(resource);
  // The storage version may have changed since the object was written: its bytes name the version.
  const from = storedApiVersion(resource, stored);
  const complete = resource.origin === "custom" ? withDefaults(schemaOf(call, from), stored) : stored;
  return from === to ? complete : convert(resource, complete, to);
}

/** Converts to another version by pruning fields it does not have. Its defaults apply to requests, not to conversion. */
function convert(resource: ServedResource, stored: EncodedObject, apiVersion: string): EncodedObject {
  return encodeUnstored(prune(resource.schema, { ...stored.object, apiVersion }).value as KubernetesObject);
}

function schemaOf({ resource, resources }: Pick<Call, "resource" | "resources">, apiVersion: string): Schema | undefined {
  if (apiVersion === apiVersionOf(resource)) return resource.schema;
  const { group, version } = parseApiVersion(apiVersion);
  return resources.get(group, version, resource.plural)?.schema;
}

/** Whether all defaults are in storage too. If not, even an update that changes nothing writes them. */
export function isStoredWithDefaults(call: Pick<Call, "resource" | "resources">, stored: StoredObject): boolean {
  if (call.resource.origin !== "custom") return true;
  const schema = schemaOf(call, storedApiVersion(call.resource, stored));
  return schema === undefined || !lacksDefaults(schema, stored.object);
}

/** Memoizes the defaulted form of stored objects, which are immutable, for all readers. */
const defaulted = new WeakMap<StoredObject, { readonly schema: Schema; readonly encoded: EncodedObject }>();

/** Adds the defaults of the version the object is stored in. Storage is unchanged until the next write. */
function withDefaults(schema: Schema | undefined, stored: StoredObject): EncodedObject {
  if (schema === undefined || !lacksDefaults(schema, stored.object)) return stored;
  const known = defaulted.get(stored);
  if (known?.schema === schema) return known.encoded;
  const object = draft(stored.object);
  applyDefaults(schema, object);
  const encoded = encodeUnstored(object);
  defaulted.set(stored, { schema, encoded });
  return encoded;
}

const head = '{"apiVersion":"';

function storedApiVersion({ storageApiVersion: expected }: ServedResource, { bytes }: StoredObject): string {
  const length = Math.min(bytes.length, head.length + expected.length + 1);
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, length).toString("latin1", head.length);
  if (start.endsWith('"') && start.startsWith(expected)) return expected;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 512)).toString("latin1");
  return text.slice(head.length, text.indexOf('"', head.length));
}

/** Length of `{"apiVersion":"...","kind":"...",`, the first bytes of every object of the resource. */
export function typeMetaBytes(resource: ServedResource): number {
  return Buffer.byteLength(`{"apiVersion":${JSON.stringify(apiVersionOf(resource))},"kind":${JSON.stringify(resource.kind)},`);
}
