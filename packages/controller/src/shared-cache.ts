import { setMaxListeners } from "node:events";
import {
  type Clock,
  type DeepReadonly,
  isStatusError,
  type KubernetesObject,
  type ObjectKey,
  type ResourceType,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type CacheOptions, type CacheSelection, mayBeSelected, selectionsOf } from "./cache-options.ts";
import { type CacheWaitOptions, waitForCache } from "./cache-wait.ts";
import type { CachedObject } from "./cached-object.ts";
import { Informer } from "./informer.ts";
import type { StoreEffect } from "./informer-state.ts";
import { labelSelectorOf } from "./label-selector.ts";
import { ListGate } from "./list-gate.ts";
import type { Logger } from "./logger.ts";
import { idOf, idOfObject, keyOfObject, typeId } from "./object-id.ts";
import { ObjectStore } from "./object-store.ts";
import type { CacheFigures } from "./metrics.ts";
import type { OnChange } from "./operator.ts";
import type { Cache, CacheListOptions, Change, IndexFunction } from "./reconcile.ts";
import { deletionWait, versionWait, type Wait } from "./shown.ts";

/** Beside a change: why it is told. */
export interface ChangeOrigin {
  /** The object was there before anybody looked: part of a first list. */
  readonly initial: boolean;
  /** Nothing changed; every object is told again now and then, so that what was missed by mistake is mended. */
  readonly resync: boolean;
}

/** Called with every change of a kind, after the store has it. */
export type ChangeHandler = (change: Change<KubernetesObject>, origin: ChangeOrigin) => void;

/** Options of {@link SharedCache}. */
export interface SharedCacheOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** What of the kinds is cached. Default: all. */
  readonly cached?: CacheOptions;
}

const resyncMs = 10 * 60 * 60_000;
const news: ChangeOrigin = { initial: false, resync: false };
const initial: ChangeOrigin = { initial: true, resync: false };
const resync: ChangeOrigin = { initial: false, resync: true };

/** One kind in the cache: its store, the informers that fill it, and who is told of changes. */
export class CachedKind {
  readonly type: ResourceType;
  readonly store: ObjectStore;
  readonly #options: SharedCacheOptions;
  readonly #informers = new Map<string, Informer>();
  readonly #selections: ReadonlyMap<string, CacheSelection>;
  readonly #handlers = new Set<ChangeHandler>();
  readonly #listenersOf = new Map<string, Set<() => void>>();
  readonly #listed = new Set<string>();

  constructor(type: ResourceType, options: SharedCacheOptions) {
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

  /** The object of this key. A namespace in the key of a cluster-scoped kind means nothing. */
  get(key: ObjectKey): CachedObject | undefined {
    return this.store.get(this.type.scope === "Cluster" ? { name: key.name } : key);
  }

  /** Whether a watch tells of this state of an object: it is selected, or was. */
  isTold(object: DeepReadonly<KubernetesObject>): boolean {
    const selection = this.#selections.get("") ?? this.#selections.get(object.metadata.namespace ?? "");
    if (selection === undefined) return false;
    return mayBeSelected(selection, object) || this.store.get(object.metadata) !== undefined;
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
    const id = idOf(this.type.scope === "Cluster" ? { name: key.name } : key);
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

/** The stores and informers of every kind that something of a manager has declared. */
export class SharedCache implements Cache {
  readonly shared = this;
  readonly #options: SharedCacheOptions;
  readonly #kinds = new Map<string, CachedKind>();
  readonly #stop = new AbortController();
  readonly #runs: Promise<void>[] = [];
  readonly #indexes = new Map<CachedKind, Map<string, IndexFunction<KubernetesObject>>>();
  #resyncTimer: { cancel(): void } | undefined;

  constructor(options: SharedCacheOptions) {
    this.#options = { ...options, client: new ListGate(options.client, options.clock) };
    // Every informer waits for it; that is no leak.
    setMaxListeners(0, this.#stop.signal);
  }

  get kinds(): readonly CachedKind[] {
    return [...this.#kinds.values()];
  }

  /** Declares a kind. Declaring it again is the same kind. */
  declare(type: ResourceType): CachedKind {
    const id = typeId(type);
    let kind = this.#kinds.get(id);
    if (kind === undefined) {
      kind = new CachedKind(type, this.#options);
      this.#kinds.set(id, kind);
    }
    return kind;
  }

  /** Declares an index. One name stands for one function: the same one may be declared again, another one may not. */
  declareIndex(type: ResourceType, name: string, compute: IndexFunction<KubernetesObject>): void {
    const kind = this.declare(type);
    const known = this.#indexes.get(kind)?.get(name);
    if (known === compute) return;
    if (known !== undefined)
      throw new TypeError(`index ${JSON.stringify(name)} of ${type.kind} is declared twice with different functions`);
    let names = this.#indexes.get(kind);
    if (names === undefined) this.#indexes.set(kind, (names = new Map()));
    names.set(name, compute);
    kind.store.addIndex(name, compute);
  }

  /** What there is of each kind, and how current it is. */
  figures(): readonly CacheFigures[] {
    return this.kinds.map(({ type, store, informers }) => ({
      kind: typeId(type),
      objects: store.size,
      staleMs: Math.max(...informers.map((informer) => informer.silentMs ?? 0)),
      watches: informers.reduce((sum, informer) => sum + informer.watches, 0),
    }));
  }

  find(type: ResourceType): CachedKind | undefined {
    return this.#kinds.get(typeId(type));
  }

  get<T extends KubernetesObject>(type: ResourceType<T>, key: ObjectKey): DeepReadonly<T> | undefined {
    return this.#declared(type).get(key) as DeepReadonly<T> | undefined;
  }

  list<T extends KubernetesObject>(type: ResourceType<T>, options: CacheListOptions = {}): readonly DeepReadonly<T>[] {
    const { store } = this.#declared(type);
    const { labelSelector = "", index, limit = 0 } = options;
    const namespace = type.scope === "Cluster" ? undefined : options.namespace;
    if (index === undefined && labelSelector === "" && limit <= 0) {
      return store.list(namespace) as readonly DeepReadonly<T>[];
    }
    const candidates = index === undefined ? store.each(namespace) : store.byIndex(...index);
    if (candidates === undefined) {
      const known = store.indexNames.join(", ") || "none";
      throw new TypeError(
        `${type.kind} has no index ${JSON.stringify(index?.[0])}; declare it in "reads" (there are: ${known})`,
      );
    }
    const selector = labelSelector === "" ? undefined : labelSelectorOf(labelSelector);
    const objects: CachedObject[] = [];
    for (const object of candidates) {
      if (namespace !== undefined && object.metadata.namespace !== namespace) continue;
      if (selector?.matches(object.metadata.labels) === false) continue;
      objects.push(object);
      if (objects.length === limit) break;
    }
    const list: readonly CachedObject[] = objects;
    return list as readonly DeepReadonly<T>[];
  }

  async whenSeen<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options: CacheWaitOptions = {},
  ): Promise<void> {
    const kind = this.#declared(type);
    const { namespace, resourceVersion } = object.metadata;
    if (resourceVersion === undefined)
      throw new TypeError(`${nameOf(kind, object)} has no metadata.resourceVersion; give what the server answered`);
    const missing = (): string => {
      const has = kind.get(keyOfObject(object))?.metadata.resourceVersion ?? "nothing";
      const upTo = kind.informerOf(namespace)?.resourceVersion ?? "no list yet";
      return `the cache does not show ${nameOf(kind, object)} at version ${resourceVersion}: it has ${has} of it, and of the kind ${upTo}`;
    };
    await this.#wait(versionWait(kind, object), missing, options);
  }

  async whenDeleted<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options: CacheWaitOptions = {},
  ): Promise<void> {
    const { clock } = this.#options;
    const { timeoutMs = 5_000, signal } = options;
    const startedAt = clock.monotonic();
    // What the cache has never shown may be yet to come, and then to go.
    await this.whenSeen(type, object, { timeoutMs, signal });
    const kind = this.#declared(type);
    const { uid } = object.metadata;
    if (uid === undefined) throw new TypeError(`${nameOf(kind, object)} has no metadata.uid; give what the server answered`);
    const missing = (): string => {
      const has = kind.get(keyOfObject(object))?.metadata.resourceVersion ?? "nothing";
      return `the cache does not show that ${nameOf(kind, object)} of uid ${uid} was deleted: it has version ${has} of it`;
    };
    const left = timeoutMs - (clock.monotonic() - startedAt);
    await this.#wait(deletionWait(kind, keyOfObject(object), uid), missing, { timeoutMs: left, signal });
  }

  readonly onChange: OnChange = (type, listener) => {
    return this.#declared(type).addListener(listener as unknown as ChangeHandler);
  };

  /** Starts the informers and waits until each has listed; rejects, naming the kinds, after `timeoutMs`. */
  async start(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    for (const kind of this.#kinds.values())
      for (const informer of kind.informers) this.#runs.push(informer.run(this.#stop.signal));
    this.#armResync();
    const listed = Promise.all([...this.#kinds.values()].flatMap((kind) => kind.informers.map((informer) => informer.listed)));
    await new Promise<void>((resolve, reject) => {
      const timer = this.#options.clock.setTimer(timeoutMs, () => settle(() => reject(this.#missing(timeoutMs))));
      const onAbort = (): void => settle(() => reject(signal?.reason));
      const settle = (finish: () => void): void => {
        timer.cancel();
        signal?.removeEventListener("abort", onAbort);
        this.#stop.signal.removeEventListener("abort", onStop);
        finish();
      };
      const onStop = (): void => settle(() => reject(new Error("the cache was stopped before it was synced")));
      if (signal?.aborted) return onAbort();
      if (this.#stop.signal.aborted) return onStop();
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#stop.signal.addEventListener("abort", onStop, { once: true });
      listed.then(
        () => settle(resolve),
        (error: unknown) => settle(() => reject(error)),
      );
    });
  }

  async stop(): Promise<void> {
    this.#resyncTimer?.cancel();
    this.#stop.abort();
    await Promise.all(this.#runs);
  }

  #armResync(): void {
    const delay = resyncMs * (0.9 + this.#options.random() * 0.2);
    const fire = (): void => {
      for (const kind of this.#kinds.values()) kind.resync();
      this.#armResync();
    };
    this.#resyncTimer = this.#options.clock.setTimer(delay, fire, { background: true });
  }

  async #wait(wait: Wait | undefined, missing: () => string, options: CacheWaitOptions): Promise<void> {
    if (wait === undefined) return;
    await waitForCache(wait, { clock: this.#options.clock, stop: this.#stop.signal, missing }, options);
  }

  #declared(type: ResourceType): CachedKind {
    const kind = this.find(type);
    if (kind !== undefined) return kind;
    const known = [...this.#kinds.values()].map((other) => other.type.kind).join(", ") || "nothing";
    throw new TypeError(
      `${type.kind} (${typeId(type)}) is not cached; declare it with "for", "owns", "watches" or "reads" (cached: ${known})`,
    );
  }

  #missing(timeoutMs: number): Error {
    const waiting = [...this.#kinds.values()].filter((kind) => !kind.isSynced);
    const reasons = waiting.map((kind) => {
      const error = kind.informers.map((informer) => informer.lastError).find((each) => each !== undefined);
      const reason = isStatusError(error, "NotFound")
        ? "the server does not know this kind"
        : error instanceof Error
          ? error.message
          : "no answer";
      return `${typeId(kind.type)} (${reason})`;
    });
    return new Error(`caches were not synced after ${timeoutMs / 1000} s: ${reasons.join("; ")}`);
  }
}

function nameOf({ type }: CachedKind, { metadata }: DeepReadonly<KubernetesObject>): string {
  return `${typeId(type)} ${metadata.namespace === undefined ? "" : `${metadata.namespace}/`}${metadata.name}`;
}
