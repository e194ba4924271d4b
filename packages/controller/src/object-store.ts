import type { KubernetesObject, Stored } from "@keelson/api-machinery";
import type { CachedObject } from "./cached-object.ts";
import { idOfObject } from "./object-id.ts";
import type { Change, IndexFunction } from "./reconcile.ts";

interface Index {
  readonly valuesOf: (object: CachedObject) => readonly string[];
  readonly buckets: Map<string, Map<string, CachedObject>>;
}

/** Holds the objects of one kind by key, by namespace and by index. Every change of it is told as {@link Change}s. */
export class ObjectStore {
  readonly #objects = new Map<string, CachedObject>();
  readonly #namespaces = new Map<string, Map<string, CachedObject>>();
  readonly #indexes = new Map<string, Index>();
  readonly #lists = new Map<string, readonly CachedObject[]>();
  readonly #onIndexError: (index: string, error: unknown) => void;

  constructor(onIndexError: (index: string, error: unknown) => void) {
    this.#onIndexError = onIndexError;
  }

  get size(): number {
    return this.#objects.size;
  }

  get(id: string): CachedObject | undefined {
    return this.#objects.get(id);
  }

  /** All objects, or those of a namespace. The array is shared until the next change, and frozen. */
  list(namespace?: string): readonly CachedObject[] {
    const slot = namespace ?? "";
    const known = this.#lists.get(slot);
    if (known !== undefined) return known;
    const objects = namespace === undefined ? this.#objects : this.#namespaces.get(namespace);
    const list = Object.freeze(objects === undefined ? [] : [...objects.values()]);
    this.#lists.set(slot, list);
    return list;
  }

  /** Objects that the index function of `name` puts under `value`; `undefined` when there is no such index. */
  byIndex(name: string, value: string): readonly CachedObject[] | undefined {
    const index = this.#indexes.get(name);
    if (index === undefined) return undefined;
    const bucket = index.buckets.get(value);
    return bucket === undefined ? [] : [...bucket.values()];
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
    for (const [id, object] of this.#objects) addTo(index, id, object);
  }

  /** Takes in an object that was added or changed. A namesake with another uid is deleted first. */
  put(object: CachedObject): Change<KubernetesObject>[] {
    const id = idOfObject(object);
    const old = this.#objects.get(id);
    this.#set(id, object, old);
    return difference(object, old);
  }

  /** Takes out an object; `last` is its final state. Nothing happens when the store has a namesake with another uid. */
  remove(last: CachedObject): Change<KubernetesObject>[] {
    const id = idOfObject(last);
    const old = this.#objects.get(id);
    if (old === undefined || old.metadata.uid !== last.metadata.uid) return [];
    this.#delete(id, old);
    return [{ type: "delete", object: last, old }];
  }

  /**
   * Makes `objects` the whole content (of one namespace, where one is given). The changes come after all of it is done, so
   * nobody sees a half-replaced store; objects that are gone are told as deleted with their last known state.
   */
  replace(objects: readonly CachedObject[], namespace?: string): Change<KubernetesObject>[] {
    const changes: Change<KubernetesObject>[] = [];
    const kept = new Set(objects.map(idOfObject));
    const before = namespace === undefined ? this.#objects : this.#namespaces.get(namespace);
    for (const [id, old] of before === undefined ? [] : [...before]) {
      if (kept.has(id)) continue;
      this.#delete(id, old);
      changes.push({ type: "delete", object: old, old });
    }
    for (const object of objects) {
      const id = idOfObject(object);
      const old = this.#objects.get(id);
      if (old !== undefined && old.metadata.uid === object.metadata.uid && isSameVersion(old, object)) continue;
      this.#set(id, object, old);
      for (const change of difference(object, old)) changes.push(change);
    }
    return changes;
  }

  #set(id: string, object: CachedObject, old: CachedObject | undefined): void {
    this.#objects.set(id, object);
    const namespace = object.metadata.namespace;
    if (namespace !== undefined) bucketOf(this.#namespaces, namespace).set(id, object);
    for (const index of this.#indexes.values()) {
      if (old !== undefined) removeFrom(index, id, old);
      addTo(index, id, object);
    }
    this.#forgetLists(namespace);
  }

  #delete(id: string, old: CachedObject): void {
    this.#objects.delete(id);
    const namespace = old.metadata.namespace;
    if (namespace !== undefined) {
      const bucket = this.#namespaces.get(namespace);
      bucket?.delete(id);
      if (bucket?.size === 0) this.#namespaces.delete(namespace);
    }
    for (const index of this.#indexes.values()) removeFrom(index, id, old);
    this.#forgetLists(namespace);
  }

  #forgetLists(namespace: string | undefined): void {
    this.#lists.delete("");
    if (namespace !== undefined) this.#lists.delete(namespace);
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
