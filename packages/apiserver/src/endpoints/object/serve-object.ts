import {
  apiVersionOf,
  deepFreeze,
  type DeepReadonly,
  draft,
  type KubernetesObject,
  parseApiVersion,
} from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { applyDefaults, hasDefaults, lacksDefaults, prune } from "@keelson/api-machinery/server";
import type { ServedResource } from "../../registry/served-resource.ts";
import { LazyStoredObject } from "../../storage/objects/stored-object.ts";
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

/** As {@link serve}, for a resource that no webhook converts. */
export function serveWithoutWebhook(call: Serving, stored: StoredObject): EncodedObject {
  const { resource } = call;
  if (resource.conversion !== undefined) return encodeUnstored(resource.conversion.fromStorage(stored.object));
  const to = apiVersionOf(resource);
  // The storage version may have changed since the object was written: its bytes name the version.
  const from = storedApiVersion(resource, stored);
  const complete = resource.origin === "custom" ? currentForm(versionOf(call, from), stored) : stored;
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
    const complete = missing.map((stored) => currentForm(versionOf(call, storedApiVersion(resource, stored)), stored).object);
    const objects = await convertCustomObjects(resource, resources, complete, apiVersionOf(resource));
    for (const [index, stored] of missing.entries()) {
      const object = objects[index];
      const known = converted.get(stored) ?? new WeakMap<ServedResource, EncodedObject>();
      if (object !== undefined) converted.set(stored, known.set(resource, encodeUnstored(object)));
    }
  }
  return items.map((stored) => converted.get(stored)?.get(resource) ?? serveWithoutWebhook(call, stored));
}

function versionOf({ resource, resources }: Serving, apiVersion: string): ServedResource | undefined {
  if (apiVersion === apiVersionOf(resource)) return resource;
  const { group, version } = parseApiVersion(apiVersion);
  return resources.get(group, version, resource.plural);
}

/** Whether an object is stored in the storage version, with all defaults and without fields to prune. If not, even an update that changes nothing writes it. */
export function isStoredCurrently(call: Serving, stored: StoredObject): boolean {
  if (call.resource.origin !== "custom") return true;
  const apiVersion = storedApiVersion(call.resource, stored);
  if (apiVersion !== call.resource.storageApiVersion) return false;
  return currentForm(versionOf(call, apiVersion), stored) === stored;
}

/** Memoizes the current form of stored objects, which are immutable, for all readers. */
const currentForms = new WeakMap<StoredObject, { readonly schema: Schema; readonly encoded: EncodedObject }>();

/**
 * An object with the defaults of the version it is stored in, and without fields that were removed from the schema since it was written.
 * The stored object itself if nothing differs. Storage is unchanged until the next write.
 */
function currentForm(version: ServedResource | undefined, stored: StoredObject): EncodedObject {
  if (version === undefined) return stored;
  const { schema } = version;
  const mayHaveRemovedFields = (stored.contentRevision ?? stored.revision) <= (version.pruning?.revision ?? 0);
  // Asked first, because the object may not have been parsed.
  if (!mayHaveRemovedFields && (!hasDefaults(schema) || !lacksDefaults(schema, stored.object))) return stored;
  const known = currentForms.get(stored);
  if (known?.schema === schema) return known.encoded;
  const pruned = mayHaveRemovedFields ? prune(schema, stored.object).value : stored.object;
  let encoded: EncodedObject = stored;
  if (lacksDefaults(schema, pruned)) {
    const object = draft(pruned);
    applyDefaults(schema, object);
    encoded = encodeUnstored(object);
  } else if (pruned !== stored.object) encoded = encodeUnstored(draft(pruned));
  currentForms.set(stored, { schema, encoded });
  return encoded;
}

/** Notes that an object was written, which may have been pruned by a schema that has lost fields in the meantime. */
export function noteWritten({ resource, resources }: Serving, stored: StoredObject): void {
  const { pruning, group, version, plural } = resource;
  if (pruning === undefined) return;
  const current = resources.get(group, version, plural)?.pruning;
  if (current !== pruning) current?.raise(stored.revision);
}

const head = '{"apiVersion":"';

/** Whether objects of the resource are served with the bytes they are stored with, unless {@link servedBytes} finds a reason not to. */
export function servesStoredBytes({ conversion, convertByWebhook, origin, schema }: ServedResource): boolean {
  return conversion === undefined && convertByWebhook === undefined && !(origin === "custom" && hasDefaults(schema));
}

/** The bytes that {@link serve} serves, for a resource that {@link servesStoredBytes}: usually `bytes`, which are not kept. */
export function servedBytes(call: Serving, key: string, revision: number, bytes: Uint8Array): Uint8Array {
  const { pruning } = call.resource;
  const isCurrent = revision > (pruning?.revision ?? 0) && beginsWith(bytes, servedHead(call.resource));
  return isCurrent ? bytes : serveWithoutWebhook(call, new LazyStoredObject(key, revision, Buffer.from(bytes))).bytes;
}

/** Memoizes how the bytes of the resource's objects begin if they are stored in its version. */
const servedHeads = new WeakMap<ServedResource, Uint8Array>();

function servedHead(resource: ServedResource): Uint8Array {
  const known = servedHeads.get(resource) ?? Buffer.from(`${head}${apiVersionOf(resource)}"`);
  servedHeads.set(resource, known);
  return known;
}

/** A loop, because a native comparison of a few bytes costs several times as much. */
function beginsWith(bytes: Uint8Array, start: Uint8Array): boolean {
  for (let index = 0; index < start.length; index++) if (bytes[index] !== start[index]) return false;
  return true;
}

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
