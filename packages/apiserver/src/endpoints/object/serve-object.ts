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
import { convertCustomObjects } from "./convert-object.ts";

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

type Serving = Pick<Call, "resource" | "resources">;

/**
 * A stored object in the version that the call's resource serves, with the current defaults: an object may be older than a default of
 * its CRD.
 *
 * **Errors**: a promise only if a conversion webhook is called; it rejects with a `StatusError` if that fails.
 */
export function serve(call: Serving, stored: StoredObject): EncodedObject | Promise<EncodedObject> {
  const { resource } = call;
  if (!needsWebhook(call, stored)) return serveWithoutWebhook(call, stored);
  const known = converted.get(stored)?.get(resource);
  return known ?? serveConverted(call, [stored]).then(([encoded]) => encoded ?? stored);
}

/** As {@link serve}, for several objects, which are sent to a conversion webhook together. */
export function serveAll(
  call: Serving,
  items: readonly StoredObject[],
): readonly EncodedObject[] | Promise<readonly EncodedObject[]> {
  if (call.resource.convertByWebhook === undefined) return items.map((stored) => serveWithoutWebhook(call, stored));
  return serveConverted(call, items);
}

function needsWebhook({ resource }: Serving, stored: StoredObject): boolean {
  return resource.convertByWebhook !== undefined && storedApiVersion(resource, stored) !== apiVersionOf(resource);
}

function serveWithoutWebhook(call: Serving, stored: StoredObject): EncodedObject {
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

/** Memoizes the results of conversion webhooks for stored objects, which are immutable, by the resource that serves them. */
const converted = new WeakMap<StoredObject, WeakMap<ServedResource, EncodedObject>>();

async function serveConverted(call: Serving, items: readonly StoredObject[]): Promise<readonly EncodedObject[]> {
  const { resource, resources } = call;
  const missing = items.filter((stored) => needsWebhook(call, stored) && converted.get(stored)?.has(resource) !== true);
  if (missing.length > 0) {
    const complete = missing.map((stored) => withDefaults(schemaOf(call, storedApiVersion(resource, stored)), stored).object);
    const objects = await convertCustomObjects(resource, resources, complete, apiVersionOf(resource));
    for (const [index, stored] of missing.entries()) {
      const object = objects[index];
      const known = converted.get(stored) ?? new WeakMap<ServedResource, EncodedObject>();
      if (object !== undefined) converted.set(stored, known.set(resource, encodeUnstored(object)));
    }
  }
  return items.map((stored) => converted.get(stored)?.get(resource) ?? serveWithoutWebhook(call, stored));
}

function schemaOf({ resource, resources }: Serving, apiVersion: string): Schema | undefined {
  if (apiVersion === apiVersionOf(resource)) return resource.schema;
  const { group, version } = parseApiVersion(apiVersion);
  return resources.get(group, version, resource.plural)?.schema;
}

/** Whether an object is stored in the storage version with all defaults. If not, even an update that changes nothing writes it. */
export function isStoredCurrently(call: Serving, stored: StoredObject): boolean {
  if (call.resource.origin !== "custom") return true;
  const apiVersion = storedApiVersion(call.resource, stored);
  if (apiVersion !== call.resource.storageApiVersion) return false;
  const schema = schemaOf(call, apiVersion);
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
