import {
  type DeepReadonly,
  draft,
  jsonEquals,
  type KubernetesObject,
  type ObjectKey,
  type ResourceType,
  statusError,
} from "@keelson/api-machinery";
import { parseLabelSelector } from "@keelson/api-machinery/selectors";
import type { Client, JsonPatchOperation } from "@keelson/client";
import type { Cache, CacheListOptions } from "@keelson/controller";

/** Any object, with the fields of some kinds. */
export interface AnyObject extends KubernetesObject {
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
  data?: Record<string, string>;
  stringData?: Record<string, string>;
}

/** A change of an object. */
export interface StoreChange {
  readonly kind: string;
  readonly old: DeepReadonly<AnyObject> | undefined;
  readonly object: DeepReadonly<AnyObject> | undefined;
}

/** An in-memory store with the API server semantics that the controllers rely on, fast enough for thousands of runs. */
export interface SimulatedStore {
  readonly cache: Cache;
  /** Client of the controllers. Methods that they do not use are missing. */
  readonly client: Client;
  all(kind: string): readonly DeepReadonly<AnyObject>[];
  get(kind: string, name: string): DeepReadonly<AnyObject> | undefined;
  /** Edits an object as another client, such as a user or the kubelet. `undefined` deletes it. */
  edit(kind: string, name: string, change: (object: AnyObject) => AnyObject | undefined): void;
  create(kind: string, object: KubernetesObject & { readonly spec?: object }): void;
  /** A copy of the state, from which another store can start. */
  snapshot(): StoreState;
}

/** The objects of a {@link SimulatedStore}, none of which is ever changed in place. */
export interface StoreState {
  readonly objects: ReadonlyMap<string, AnyObject>;
  /** The last configurations applied, by field manager and object. */
  readonly applied: ReadonlyMap<string, AnyObject>;
  readonly version: number;
}

/** When all objects of a simulation were created and deleted. */
const creationTimestamp = "2026-01-01T00:00:00Z";

/** Namespace of simulations. */
export const namespace = "default";

/**
 * Creates a {@link SimulatedStore}, by default an empty one. `write` wraps every write; if it throws before the write, the write does not
 * happen.
 */
export function createSimulatedStore(
  onChange: (change: StoreChange) => void,
  write: (name: string, act: () => void) => void,
  from?: StoreState,
): SimulatedStore {
  const objects = new Map(from?.objects);
  const applied = new Map(from?.applied);
  let version = from?.version ?? 0;
  const idOf = (kind: string, name: string): string => `${kind}/${name}`;

  function put(kind: string, name: string, next: AnyObject | undefined): void {
    const old = objects.get(idOf(kind, name));
    if (next === undefined) {
      objects.delete(idOf(kind, name));
      onChange({ kind, old, object: undefined });
      return;
    }
    if (old !== undefined && jsonEquals(old, next)) return;
    version += 1;
    next.metadata.resourceVersion = String(version);
    next.metadata.uid ??= `uid-${version}`;
    next.metadata.creationTimestamp ??= creationTimestamp;
    next.metadata.namespace ??= namespace;
    next.metadata.generation =
      (old?.metadata.generation ?? 0) + Number(old === undefined || !jsonEquals(old.spec ?? {}, next.spec ?? {}));
    objects.set(idOf(kind, name), next);
    onChange({ kind, old, object: next });
  }

  function stored(type: ResourceType, key: ObjectKey): AnyObject {
    const found = objects.get(idOf(type.kind, key.name ?? ""));
    if (found === undefined) throw statusError("NotFound", `${type.plural} "${key.name}" not found`);
    return draft(found) as AnyObject;
  }

  function checkVersion(found: AnyObject, wanted: string | undefined): void {
    if (wanted !== undefined && wanted !== found.metadata.resourceVersion)
      throw statusError("Conflict", "the object has been modified");
  }

  /** Adds or removes finalizers. A deleted object without any disappears. */
  function patchFinalizers(type: ResourceType, key: ObjectKey, operations: readonly JsonPatchOperation[]): AnyObject {
    const found = stored(type, key);
    for (const operation of operations) {
      const isWrite = operation.op === "add" || operation.op === "replace";
      if (!isWrite || operation.path !== "/metadata/finalizers") continue;
      found.metadata.finalizers = operation.value as string[];
    }
    const isGone = found.metadata.deletionTimestamp !== undefined && (found.metadata.finalizers ?? []).length === 0;
    write(`finalizers ${type.kind} ${key.name}`, () => put(type.kind, key.name ?? "", isGone ? undefined : found));
    return found;
  }

  const client: Partial<Client> = {
    get: (type, key) => attempt(() => stored(type, key) as never),
    apply: (type, configuration, { fieldManager = "" } = {}) =>
      attempt(() => {
        const wanted = draft(configuration) as unknown as AnyObject;
        const name = wanted.metadata.name ?? "";
        const ownerId = `${fieldManager}/${idOf(type.kind, name)}`;
        write(`apply ${type.kind} ${name}`, () => {
          const old = objects.get(idOf(type.kind, name));
          const next = (old === undefined ? { ...typeMeta(type), metadata: { name } } : draft(old)) as AnyObject;
          for (const field of ["labels", "annotations"] as const) {
            const before = Object.keys(applied.get(ownerId)?.metadata[field] ?? {});
            const kept = Object.entries(next.metadata[field] ?? {}).filter(([key]) => !before.includes(key));
            next.metadata[field] = { ...Object.fromEntries(kept), ...wanted.metadata[field] };
          }
          if (wanted.metadata.ownerReferences) next.metadata.ownerReferences = wanted.metadata.ownerReferences;
          if (wanted.spec) next.spec = wanted.spec;
          if (wanted.data) next.data = wanted.data;
          applied.set(ownerId, wanted);
          put(type.kind, name, next);
        });
        return stored(type, { name }) as never;
      }),
    applyStatus: (type, configuration) =>
      attempt(() => {
        const { metadata, status } = draft(configuration) as unknown as AnyObject;
        const name = metadata.name ?? "";
        write(`status ${type.kind} ${name}`, () => {
          const found = stored(type, { name });
          checkVersion(found, metadata.resourceVersion);
          put(type.kind, name, { ...found, ...(status === undefined ? {} : { status }) });
        });
        return stored(type, { name }) as never;
      }),
    patch: (type, key, patch) =>
      attempt(() => {
        if (patch.type === "json") return patchFinalizers(type, key, patch.operations) as never;
        if (patch.type !== "merge") throw new Error(`patch type ${patch.type} is not simulated`);
        const { metadata } = patch.body as {
          metadata: { resourceVersion?: string; annotations: Record<string, string | null> };
        };
        write(`patch ${type.kind} ${key.name}`, () => {
          const found = stored(type, key);
          checkVersion(found, metadata.resourceVersion);
          const merged = Object.entries({ ...found.metadata.annotations, ...metadata.annotations });
          found.metadata.annotations = Object.fromEntries(merged.filter((each): each is [string, string] => each[1] !== null));
          put(type.kind, key.name ?? "", found);
        });
        return stored(type, key) as never;
      }),
    create: (type, object) =>
      attempt(() => {
        const created = { ...typeMeta(type), ...draft(object) } as unknown as AnyObject;
        const name = created.metadata.name ?? "";
        if (objects.has(idOf(type.kind, name))) throw statusError("AlreadyExists", `${name} already exists`);
        if (created.stringData) {
          const encode = ([key, text]: [string, string]): [string, string] => [key, Buffer.from(text).toString("base64")];
          created.data = Object.fromEntries(Object.entries(created.stringData).map(encode));
          delete created.stringData;
        }
        write(`create ${type.kind} ${name}`, () => put(type.kind, name, created));
        return stored(type, { name }) as never;
      }),
    delete: (type, key, options) =>
      attempt(() => {
        const found = stored(type, key);
        const uid = options?.preconditions?.uid;
        if (uid !== undefined && uid !== found.metadata.uid) throw statusError("Conflict", "the UID does not match");
        found.metadata.deletionTimestamp ??= creationTimestamp;
        write(`delete ${type.kind} ${key.name}`, () => put(type.kind, key.name ?? "", found));
      }),
  };

  const all = (kind: string): AnyObject[] =>
    [...objects].filter(([id]) => id.startsWith(`${kind}/`)).map(([, object]) => object);
  const cache: Cache = {
    get: (type, key) => (key.namespace === namespace ? (objects.get(idOf(type.kind, key.name ?? "")) as never) : undefined),
    list: (type: ResourceType, { labelSelector }: CacheListOptions = {}) => {
      const selector = labelSelector === undefined ? undefined : parseLabelSelector(labelSelector);
      return all(type.kind).filter((object) => selector?.matches(object.metadata.labels) ?? true) as never;
    },
    // Writes are visible immediately.
    whenSeen: () => Promise.resolve(),
    whenDeleted: () => Promise.resolve(),
  };
  return {
    client: client as Client,
    cache,
    all,
    get: (kind, name) => objects.get(idOf(kind, name)),
    edit(kind, name, change) {
      const found = objects.get(idOf(kind, name));
      if (found === undefined) throw new Error(`${kind} ${name} not found`);
      put(kind, name, change(draft(found) as AnyObject));
    },
    create: (kind, object) => put(kind, object.metadata.name ?? "", object as AnyObject),
    snapshot: () => ({ objects: new Map(objects), applied: new Map(applied), version }),
  };
}

const typeMeta = ({ group, version, kind }: ResourceType): { apiVersion: string; kind: string } => ({
  apiVersion: group === "" ? version : `${group}/${version}`,
  kind,
});

/** Converts an exception into a rejection. */
function attempt<T>(act: () => T): Promise<T> {
  return new Promise((resolve) => resolve(act()));
}
