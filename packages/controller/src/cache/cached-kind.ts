import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type CacheOptions, type CacheSelection, mayBeSelected, selectionsOf } from "./cache-options.ts";
import type { CachedObject } from "./cached-object.ts";
import { Informer } from "../informer/informer.ts";
import type { StoreEffect } from "../informer/informer-state.ts";
import type { Logger } from "../logging/logger.ts";
import { idOf, idOfObject } from "./object-id.ts";
import { ObjectStore } from "./object-store.ts";
import type { Change } from "./change.ts";

/** Why a change is delivered. */
export interface ChangeOrigin {
  /** The object is part of the initial list. */
  readonly initial: boolean;
  /** Nothing changed: a resync delivers every object again, to repair what a bug may have missed. */
  readonly resync: boolean;
}

/** Called with every change of a kind, after the store has it. */
export type ChangeHandler = (change: Change<KubernetesObject>, origin: ChangeOrigin) => void;

/** What the kinds of a cache share. */
export interface FollowOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Selectors, namespaces and transforms. Default: all objects, unchanged. */
  readonly cached?: CacheOptions;
}

const live: ChangeOrigin = { initial: false, resync: false };
const initial: ChangeOrigin = { initial: true, resync: false };
const resync: ChangeOrigin = { initial: false, resync: true };

/** One kind in the cache: its store, the informers that fill it, and the handlers of its changes. */
export class CachedKind {
  readonly type: ResourceType;
  readonly store: ObjectStore;
  readonly #options: FollowOptions;
  readonly #informers = new Map<string, Informer>();
  readonly #selections: ReadonlyMap<string, CacheSelection>;
  readonly #handlers = new Set<ChangeHandler>();
  readonly #listenersOf = new Map<string, Set<() => void>>();
  readonly #listed = new Set<string>();

  constructor(type: ResourceType, options: FollowOptions) {
    this.type = type;
    this.#options = options;
    this.store = new ObjectStore((index, error) => {
      options.log.error({ err: error, kind: type.kind, index }, "index function failed; not indexing the object");
    });
    const { client, clock, random, log, cached = {} } = options;
    this.#selections = selectionsOf(type, cached);
    for (const [name, selection] of this.#selections) {
      const namespace = name === "" ? undefined : name;
      const onEffect = (effect: StoreEffect): void => this.#applyEffect(effect, namespace);
      const current = (object: CachedObject): CachedObject | undefined => this.store.get(object.metadata);
      const { initialList } = cached;
      const shared = { client, type, clock, random, log, current, onEffect, initialList };
      this.#informers.set(name, new Informer({ ...shared, namespace, selection }));
    }
  }

  get informers(): readonly Informer[] {
    return [...this.#informers.values()];
  }

  get isSynced(): boolean {
    return this.#listed.size === this.#informers.size;
  }

  /** The informer of this namespace; `undefined` if it is not watched. */
  informerOf(namespace: string | undefined): Informer | undefined {
    return this.#informers.get("") ?? this.#informers.get(namespace ?? "");
  }

  /** The object of this key. */
  get(key: ObjectKey): CachedObject | undefined {
    return this.store.get(this.#ownKey(key));
  }

  /** Whether the watch delivers this state of an object: it is selected, or its previous state was. */
  isDelivered(object: DeepReadonly<KubernetesObject>): boolean {
    const selection = this.#selectionOf(object);
    if (selection === undefined) return false;
    return mayBeSelected(selection, object) || this.store.get(object.metadata) !== undefined;
  }

  /** Whether this state of an object certainly enters the store. With a field selector, only the server knows. */
  isStored(object: DeepReadonly<KubernetesObject>): boolean {
    const selection = this.#selectionOf(object);
    return selection !== undefined && selection.fieldSelector === undefined && mayBeSelected(selection, object);
  }

  /** Adds a handler and calls it for every stored object. Returns a function that removes it. */
  addHandler(handler: ChangeHandler): () => void {
    this.#handlers.add(handler);
    for (const object of this.store.list()) this.#call(handler, { type: "create", object }, initial);
    return () => void this.#handlers.delete(handler);
  }

  /** Adds a handler of changes from now on. Returns a function that removes it. */
  addListener(handler: ChangeHandler): () => void {
    this.#handlers.add(handler);
    return () => void this.#handlers.delete(handler);
  }

  /** Calls `listener` after every change of the object of this key. The cost of a change does not depend on listeners of other keys. */
  addListenerOf(key: ObjectKey, listener: () => void): () => void {
    const id = idOf(this.#ownKey(key));
    let listeners = this.#listenersOf.get(id);
    if (listeners === undefined) this.#listenersOf.set(id, (listeners = new Set()));
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listenersOf.get(id) === listeners) this.#listenersOf.delete(id);
    };
  }

  /** Delivers every object to every handler, as an update that changed nothing. */
  resync(): void {
    for (const object of this.store.list()) this.#publish({ type: "update", object, old: object }, resync);
  }

  /** Ignores a namespace in the key of a cluster-scoped object. */
  #ownKey(key: ObjectKey): ObjectKey {
    return this.type.scope === "Cluster" ? { name: key.name } : key;
  }

  #selectionOf({ metadata }: DeepReadonly<KubernetesObject>): CacheSelection | undefined {
    return this.#selections.get("") ?? this.#selections.get(metadata.namespace ?? "");
  }

  #applyEffect(effect: StoreEffect, namespace: string | undefined): void {
    if (effect.kind === "put") {
      for (const change of this.store.put(effect.object)) this.#publish(change, live);
    } else if (effect.kind === "remove") {
      for (const change of this.store.remove(effect.object)) this.#publish(change, live);
    } else {
      const first = !this.#listed.has(namespace ?? "");
      const changes = this.store.replace(effect.objects, namespace);
      this.#listed.add(namespace ?? "");
      for (const change of changes) this.#publish(change, first ? initial : live);
    }
  }

  #publish(change: Change<KubernetesObject>, origin: ChangeOrigin): void {
    for (const handler of this.#handlers) this.#call(handler, change, origin);
    if (this.#listenersOf.size === 0) return;
    for (const listener of this.#listenersOf.get(idOfObject(change.object)) ?? []) this.#call(listener, change, origin);
  }

  /** A handler that throws must not stop the others or the informer. */
  #call(handler: ChangeHandler, change: Change<KubernetesObject>, origin: ChangeOrigin): void {
    try {
      handler(change, origin);
    } catch (error) {
      this.#options.log.error({ err: error, kind: this.type.kind, change: change.type }, "change handler failed");
    }
  }
}
