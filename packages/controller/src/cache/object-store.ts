import type { KubernetesObject, Stored } from "@keelson/api-machinery";
import type { CachedObject } from "./cached-object.ts";
import { idOfObject } from "./object-id.ts";
import type { Change } from "./change.ts";
import type { IndexFunction } from "./cache.ts";

interface Index {
  readonly valuesOf: (object: CachedObject) => readonly string[];
  readonly buckets: Map<string, Map<string, CachedObject>>;
}

/** Holds the objects of one kind by key, namespace and index. Every modification returns its {@link Change}s. */
export class ObjectStore {
  /** By namespace (`""` for cluster-scoped objects) and name, so that a lookup needs no combined key. */
  readonly #namespaces = new Map<string, Map<string, CachedObject>>();
  readonly #indexes = new Map<string, Index>();
  readonly #lists = new Map<string, readonly CachedObject[]>();
  readonly #onIndexError: (index: string, error: unknown) => void;
  #size = 0;

  constructor(onIndexError: (index: string, error: unknown) => void) {
    this.#onIndexError = onIndexError;
  }

  get size(): number {
    return this.#size;
  }

  get({
    namespace = "",
    name,
  }: {
    readonly namespace?: string | undefined;
    readonly name?: string | undefined;
  }): CachedObject | undefined {
    return this.#namespaces.get(namespace)?.get(name ?? "");
  }

  /** All objects, or those of a namespace. The array is frozen, and shared until the next change. */
  list(namespace?: string): readonly CachedObject[] {
    const slot = namespace ?? "";
    const known = this.#lists.get(slot);
    if (known !== undefined) return known;
    const list = Object.freeze([...this.each(namespace)]);
    this.#lists.set(slot, list);
    return list;
  }

  /** Iterates over all objects, or those of a namespace, without an array. */
  *each(namespace?: string): Generator<CachedObject, void, undefined> {
    for (const bucket of namespace === undefined ? this.#namespaces.values() : [this.#namespaces.get(namespace)]) {
      if (bucket !== undefined) yield* bucket.values();
    }
  }

  /** Objects with this value in an index; `undefined` if the index does not exist. */
  byIndex(name: string, value: string): Iterable<CachedObject> | undefined {
    const index = this.#indexes.get(name);
    return index === undefined ? undefined : (index.buckets.get(value)?.values() ?? []);
  }

  get indexNames(): readonly string[] {
    return [...this.#indexes.keys()];
  }

  addIndex(name: string, compute: IndexFunction<KubernetesObject>): void {
    const valuesOf = (object: CachedObject): readonly string[] => {
      try {
        return [...new Set(compute(object as Stored))];
      } catch (error) {
        this.#onIndexError(name, error);
        return [];
      }
    };
    const index: Index = { valuesOf, buckets: new Map() };
    this.#indexes.set(name, index);
    for (const object of this.list()) addTo(index, idOfObject(object), object);
  }

  /** Stores an object that was added or changed. An object of the same name with another uid is deleted first. */
  put(object: CachedObject): Change<KubernetesObject>[] {
    const old = this.get(object.metadata);
    this.#set(object, old);
    return difference(object, old);
  }

  /** Removes an object; `last` is its final state. Does nothing if the stored object of this name has another uid. */
  remove(last: CachedObject): Change<KubernetesObject>[] {
    const old = this.get(last.metadata);
    if (old === undefined || old.metadata.uid !== last.metadata.uid) return [];
    this.#delete(old);
    return [{ type: "delete", object: last, old }];
  }

  /**
   * Replaces the content, of one namespace if given. The changes are returned after the replacement, so that handlers
   * never see a partially replaced store. Missing objects are deleted with their last known state.
   */
  replace(objects: readonly CachedObject[], namespace?: string): Change<KubernetesObject>[] {
    const changes: Change<KubernetesObject>[] = [];
    const kept = new Set(objects.map(idOfObject));
    for (const old of this.list(namespace)) {
      if (kept.has(idOfObject(old))) continue;
      this.#delete(old);
      changes.push({ type: "delete", object: old, old });
    }
    for (const object of objects) {
      const old = this.get(object.metadata);
      if (old !== undefined && old.metadata.uid === object.metadata.uid && isSameVersion(old, object)) continue;
      this.#set(object, old);
      for (const change of difference(object, old)) changes.push(change);
    }
    return changes;
  }

  #set(object: CachedObject, old: CachedObject | undefined): void {
    const { namespace = "", name = "" } = object.metadata;
    bucketOf(this.#namespaces, namespace).set(name, object);
    if (old === undefined) this.#size++;
    for (const index of this.#indexes.values()) {
      const id = idOfObject(object);
      if (old !== undefined) removeFrom(index, id, old);
      addTo(index, id, object);
    }
    this.#forgetLists(namespace);
  }

  #delete(old: CachedObject): void {
    const { namespace = "", name = "" } = old.metadata;
    const bucket = this.#namespaces.get(namespace);
    if (bucket?.delete(name)) this.#size--;
    if (bucket?.size === 0) this.#namespaces.delete(namespace);
    for (const index of this.#indexes.values()) removeFrom(index, idOfObject(old), old);
    this.#forgetLists(namespace);
  }

  #forgetLists(namespace: string): void {
    if (this.#lists.size === 0) return;
    this.#lists.delete("");
    this.#lists.delete(namespace);
  }
}

function difference(object: CachedObject, old: CachedObject | undefined): Change<KubernetesObject>[] {
  if (old === undefined) return [{ type: "create", object }];
  if (old.metadata.uid === object.metadata.uid) return [{ type: "update", object, old }];
  return [
    { type: "delete", object: old, old },
    { type: "create", object },
  ];
}

function isSameVersion(a: CachedObject, b: CachedObject): boolean {
  return a.metadata.resourceVersion !== undefined && a.metadata.resourceVersion === b.metadata.resourceVersion;
}

function addTo(index: Index, id: string, object: CachedObject): void {
  for (const value of index.valuesOf(object)) bucketOf(index.buckets, value).set(id, object);
}

function removeFrom(index: Index, id: string, object: CachedObject): void {
  for (const value of index.valuesOf(object)) {
    const bucket = index.buckets.get(value);
    bucket?.delete(id);
    if (bucket?.size === 0) index.buckets.delete(value);
  }
}

function bucketOf(buckets: Map<string, Map<string, CachedObject>>, value: string): Map<string, CachedObject> {
  let bucket = buckets.get(value);
  if (bucket === undefined) {
    bucket = new Map();
    buckets.set(value, bucket);
  }
  return bucket;
}
