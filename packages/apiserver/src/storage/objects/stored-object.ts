import { type DeepReadonly, deepFreeze, type KubernetesObject } from "@keelson/api-machinery";
import type { StoredObject } from "../store.ts";

/** What every stored object has between `kind` and its revision, as {@link encodeObject} writes it. */
const marker = Buffer.from('"metadata":{"resourceVersion":"');
const quote = 0x22;

/**
 * The canonical form of an object at `revision`: `apiVersion`, `kind`, then `metadata` with `resourceVersion` first, so that
 * the envelope can be changed in the bytes without parsing them. Takes ownership of the object and freezes it.
 */
export function encodeObject(key: string, revision: number, object: KubernetesObject): StoredObject {
  // Spreading twice puts the fields in order: taking the others apart with a rest pattern is several times slower.
  const metadata = { resourceVersion: "", ...object.metadata };
  metadata.resourceVersion = String(revision);
  const head: KubernetesObject = { apiVersion: object.apiVersion, kind: object.kind, metadata };
  const canonical = deepFreeze({ ...head, ...object, metadata });
  return { key, revision, bytes: Buffer.from(JSON.stringify(canonical)), object: canonical };
}

/** An object from storage, parsed and frozen on first access. */
export class LazyStoredObject implements StoredObject {
  readonly key: string;
  readonly revision: number;
  readonly bytes: Uint8Array;
  #object: DeepReadonly<KubernetesObject> | undefined;

  constructor(key: string, revision: number, bytes: Uint8Array) {
    this.key = key;
    this.revision = revision;
    this.bytes = bytes;
  }

  get object(): DeepReadonly<KubernetesObject> {
    this.#object ??= deepFreeze(
      JSON.parse(Buffer.from(this.bytes.buffer, this.bytes.byteOffset, this.bytes.length).toString()),
    );
    return this.#object as DeepReadonly<KubernetesObject>;
  }
}

/** The last state of a deleted object with the revision of the delete, created on first access. */
export class DeletedObject implements StoredObject {
  readonly key: string;
  readonly revision: number;
  readonly contentRevision: number;
  readonly #last: StoredObject;
  #bytes: Uint8Array | undefined;
  #object: DeepReadonly<KubernetesObject> | undefined;

  constructor(last: StoredObject, revision: number) {
    this.key = last.key;
    this.revision = revision;
    this.contentRevision = last.contentRevision ?? last.revision;
    this.#last = last;
  }

  get bytes(): Uint8Array {
    this.#bytes ??= withRevision(this.#last.bytes, this.revision);
    return this.#bytes;
  }

  get object(): DeepReadonly<KubernetesObject> {
    this.#object ??= Object.freeze({
      ...this.#last.object,
      metadata: Object.freeze({ ...this.#last.object.metadata, resourceVersion: String(this.revision) }),
    });
    return this.#object;
  }
}

/** The same bytes with another resourceVersion. */
function withRevision(bytes: Uint8Array, revision: number): Uint8Array {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const start = buffer.indexOf(marker) + marker.length;
  const end = buffer.indexOf(quote, start);
  return Buffer.concat([buffer.subarray(0, start), Buffer.from(String(revision)), buffer.subarray(end)]);
}
