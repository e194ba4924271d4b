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
import type { Client } from "@keelson/client";
import type { Cache, CacheListOptions } from "@keelson/controller";

/** Any object, with the parts that some kinds have. */
export interface AnyObject extends KubernetesObject {
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
  data?: Record<string, string>;
  stringData?: Record<string, string>;
}

/** A change that somebody may be waiting for. */
export interface StoreChange {
  readonly kind: string;
  readonly old: DeepReadonly<AnyObject> | undefined;
  readonly object: DeepReadonly<AnyObject> | undefined;
}

/** Objects in memory with as much of an API server's rules as the family's controllers rely on: enough to run them thousands of times. */
export interface SimulatedStore {
  readonly cache: Cache;
  /** What the controllers write with. Other methods than those that they use throw. */
  readonly client: Client;
  all(kind: string): readonly DeepReadonly<AnyObject>[];
  get(kind: string, name: string): DeepReadonly<AnyObject> | undefined;
  /** Writes as somebody else: people, the kubelet, the volumes' controller. `undefined` takes the object away. */
  edit(kind: string, name: string, change: (object: AnyObject) => AnyObject | undefined): void;
  create(kind: string, object: KubernetesObject & { readonly spec?: object }): void;
}

/** The one namespace of simulations. */
export const namespace = "default";

/** Makes a {@link SimulatedStore}. `beforeWrite` may throw, and the write does not happen; what it returns is called after it. */
export function createSimulatedStore(
  onChange: (change: StoreChange) => void,
  write: (name: string, act: () => void) => void,
): SimulatedStore {
  const objects = new Map<string, AnyObject>();
  const applied = new Map<string, AnyObject>();
  let version = 0;
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
    next.metadata.namespace ??= namespace;
    next.metadata.generation =
      (old?.metadata.generation ?? 0) + Number(old === undefined || !jsonEquals(old.spec ?? {}, next.spec ?? {}));
    objects.set(idOf(kind, name), next);
    onChange({ kind, old, object: next });
  }

  function mine(type: ResourceType, key: ObjectKey): AnyObject {
    const found = objects.get(idOf(type.kind, key.name ?? ""));
    if (found === undefined) throw statusError("NotFound", `${type.plural} "${key.name}" not found`);
    return draft(found) as AnyObject;
  }

  function checkVersion(found: AnyObject, wanted: string | undefined): void {
    if (wanted !== undefined && wanted !== found.metadata.resourceVersion) throw statusError("Conflict", "it has moved on");
  }

  const client: Partial<Client> = {
    get: (type, key) => attempt(() => mine(type, key) as never),
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
        return mine(type, { name }) as never;
      }),
    applyStatus: (type, configuration) =>
      attempt(() => {
        const { metadata, status } = draft(configuration) as unknown as AnyObject;
        const name = metadata.name ?? "";
        write(`status ${type.kind} ${name}`, () => {
          const found = mine(type, { name });
          checkVersion(found, metadata.resourceVersion);
          put(type.kind, name, { ...found, ...(status === undefined ? {} : { status }) });
        });
        return mine(type, { name }) as never;
      }),
    patch: (type, key, patch) =>
      attempt(() => {
        if (patch.type !== "merge") throw new Error(`no ${patch.type} patches here`);
        const { metadata } = patch.body as {
          metadata: { resourceVersion?: string; annotations: Record<string, string | null> };
        };
        write(`patch ${type.kind} ${key.name}`, () => {
          const found = mine(type, key);
          checkVersion(found, metadata.resourceVersion);
          const merged = Object.entries({ ...found.metadata.annotations, ...metadata.annotations });
          found.metadata.annotations = Object.fromEntries(merged.filter((each): each is [string, string] => each[1] !== null));
          put(type.kind, key.name ?? "", found);
        });
        return mine(type, key) as never;
      }),
    create: (type, object) =>
      attempt(() => {
        const made = { ...typeMeta(type), ...draft(object) } as unknown as AnyObject;
        const name = made.metadata.name ?? "";
        if (objects.has(idOf(type.kind, name))) throw statusError("AlreadyExists", `${name} already exists`);
        if (made.stringData) {
          const encode = ([key, text]: [string, string]): [string, string] => [key, Buffer.from(text).toString("base64")];
          made.data = Object.fromEntries(Object.entries(made.stringData).map(encode));
          delete made.stringData;
        }
        write(`create ${type.kind} ${name}`, () => put(type.kind, name, made));
        return mine(type, { name }) as never;
      }),
    delete: (type, key, options) =>
      attempt(() => {
        const found = mine(type, key);
        const uid = options?.preconditions?.uid;
        if (uid !== undefined && uid !== found.metadata.uid) throw statusError("Conflict", "it is another one");
        found.metadata.deletionTimestamp ??= "2026-01-01T00:00:00Z";
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
    // It shows every write at once.
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
      if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
      put(kind, name, change(draft(found) as AnyObject));
    },
    create: (kind, object) => put(kind, object.metadata.name ?? "", object as AnyObject),
  };
}

const typeMeta = ({ group, version, kind }: ResourceType): { apiVersion: string; kind: string } => ({
  apiVersion: group === "" ? version : `${group}/${version}`,
  kind,
});

/** What throws rejects. */
function attempt<T>(act: () => T): Promise<T> {
  return new Promise((resolve) => resolve(act()));
}
