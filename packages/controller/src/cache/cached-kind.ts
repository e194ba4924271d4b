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

/** Beside a change: why it is told. */
export interface ChangeOrigin {
  /** The object was there before anybody looked: part of a first list. */
  readonly initial: boolean;
  /** Nothing changed; every object is told again now and then, so that what was missed by mistake is mended. */
  readonly resync: boolean;
}

/** Called with every change of a kind, after the store has it. */
export type ChangeHandler = (change: Change<KubernetesObject>, origin: ChangeOrigin) => void;

/** What every kind of a cache is followed with. */
export interface FollowOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** What of the kinds is cached. Default: all. */
  readonly cached?: CacheOptions;
}

const news: ChangeOrigin = { initial: false, resync: false };
const initial: ChangeOrigin = { initial: true, resync: false };
const resync: ChangeOrigin = { initial: false, resync: true };

/** One kind in the cache: its store, the informers that fill it, and who is told of changes. */
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
      options.log.error({ err: error, kind: type.kind, index }, "index function failed; the object is not in the index");
    });
    const { client, clock, random, log, cached = {} } = options;
    this.#selections = selectionsOf(type, cached);
    for (const [name, selection] of this.#selections) {
      const namespace = name === "" ? undefined : name;
      const onEffect = (effect: StoreEffect): void => this.#carryOut(effect, namespace);
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

  /** The informer that sees an object of this namespace, or none where it is not watched. */
  informerOf(namespace: string | undefined): Informer | undefined {
    return this.#informers.get("") ?? this.#informers.get(namespace ?? "");
  }

  /** The object of this key. */
  get(key: ObjectKey): CachedObject | undefined {
    return this.store.get(this.#ownKey(key));
  }

  /** Whether a watch tells of this state of an object: it is selected, or was. */
  isTold(object: DeepReadonly<KubernetesObject>): boolean {
    const selection = this.#selectionOf(object);
    if (selection === undefined) return false;
    return mayBeSelected(selection, object) || this.store.get(object.metadata) !== undefined;
  }

  /** Whether this state of an object is in the store once it is seen. With a field selector only the server can tell. */
  isKept(object: DeepReadonly<KubernetesObject>): boolean {
    const selection = this.#selectionOf(object);
    return selection !== undefined && selection.fieldSelector === undefined && mayBeSelected(selection, object);
  }

  /** Adds a handler and tells it of every object that is there already. Returns the way to remove it. */
  addHandler(handler: ChangeHandler): () => void {
    this.#handlers.add(handler);
    for (const object of this.store.list()) this.#tell(handler, { type: "create", object }, initial);
    return () => void this.#handlers.delete(handler);
  }

  /** Adds a handler that is told of changes from now on only. */
  addListener(handler: ChangeHandler): () => void {
    this.#handlers.add(handler);
    return () => void this.#handlers.delete(handler);
  }

  /** Calls `listener` after every change of the object of this key. Of any number of them a change calls only its own. */
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

  /** Tells every handler of every object as an update that changed nothing. */
  resync(): void {
    for (const object of this.store.list()) this.#publish({ type: "update", object, old: object }, resync);
  }

  /** A namespace in the key of a cluster-scoped object means nothing. */
  #ownKey(key: ObjectKey): ObjectKey {
    return this.type.scope === "Cluster" ? { name: key.name } : key;
  }

  #selectionOf({ metadata }: DeepReadonly<KubernetesObject>): CacheSelection | undefined {
    return this.#selections.get("") ?? this.#selections.get(metadata.namespace ?? "");
  }

  #carryOut(effect: StoreEffect, namespace: string | undefined): void {
    if (effect.kind === "put") {
      for (const change of this.store.put(effect.object)) this.#publish(change, news);
    } else if (effect.kind === "remove") {
      for (const change of this.store.remove(effect.object)) this.#publish(change, news);
    } else {
      const first = !this.#listed.has(namespace ?? "");
      const changes = this.store.replace(effect.objects, namespace);
      this.#listed.add(namespace ?? "");
      for (const change of changes) this.#publish(change, first ? initial : news);
    }
  }

  #publish(change: Change<KubernetesObject>, origin: ChangeOrigin): void {
    for (const handler of this.#handlers) this.#tell(handler, change, origin);
    if (this.#listenersOf.size === 0) return;
    for (const listener of this.#listenersOf.get(idOfObject(change.object)) ?? []) this.#tell(listener, change, origin);
  }

  /** A handler that throws must not keep the others, or the informer, from going on. */
  #tell(handler: ChangeHandler, change: Change<KubernetesObject>, origin: ChangeOrigin): void {
    try {
      handler(change, origin);
    } catch (error) {
      this.#options.log.error({ err: error, kind: this.type.kind, change: change.type }, "a handler of changes failed");
    }
  }
}
