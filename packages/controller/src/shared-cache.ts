import { setMaxListeners } from "node:events";
import {
  type Clock,
  type DeepReadonly,
  isStatusError,
  type KubernetesObject,
  type ObjectKey,
  type ResourceType,
  type Stored,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type CacheOptions, type CacheSelection, mayBeSelected, selectionsOf } from "./cache-options.ts";
import type { CachedObject } from "./cached-object.ts";
import { Informer } from "./informer.ts";
import type { StoreEffect } from "./informer-state.ts";
import { labelSelectorOf } from "./label-selector.ts";
import type { Logger } from "./logger.ts";
import { idOf, idOfObject, typeId } from "./object-id.ts";
import { ObjectStore } from "./object-store.ts";
import type { CacheFigures } from "./metrics.ts";
import type { OnChange } from "./operator.ts";
import type { Cache, CacheListOptions, Change, IndexFunction } from "./reconcile.ts";

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
      const current = (object: CachedObject): CachedObject | undefined => this.store.get(idOfObject(object));
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

  /** Whether a watch tells of this state of an object: it is selected, or was. */
  isTold(object: DeepReadonly<KubernetesObject>): boolean {
    const selection = this.#selections.get("") ?? this.#selections.get(object.metadata.namespace ?? "");
    if (selection === undefined) return false;
    return mayBeSelected(selection, object) || this.store.get(idOfObject(object)) !== undefined;
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
    this.#options = options;
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

  get<T extends KubernetesObject>(type: ResourceType<T>, key: ObjectKey): Stored<T> | undefined {
    const id = type.scope === "Cluster" ? `/${key.name}` : idOf(key);
    return this.#declared(type).store.get(id) as Stored<T> | undefined;
  }

  list<T extends KubernetesObject>(type: ResourceType<T>, options: CacheListOptions = {}): readonly Stored<T>[] {
    const { store } = this.#declared(type);
    const { namespace, labelSelector, index } = options;
    let objects: readonly CachedObject[] | undefined;
    if (index !== undefined) {
      objects = store.byIndex(index[0], index[1]);
      if (objects === undefined) {
        const known = store.indexNames.join(", ") || "none";
        throw new TypeError(
          `${type.kind} has no index ${JSON.stringify(index[0])}; declare it in "reads" (there are: ${known})`,
        );
      }
      if (namespace !== undefined) objects = objects.filter((object) => object.metadata.namespace === namespace);
    } else {
      objects = store.list(type.scope === "Cluster" ? undefined : namespace);
    }
    if (labelSelector !== undefined && labelSelector !== "") {
      const selector = labelSelectorOf(labelSelector);
      objects = objects.filter((object) => selector.matches(object.metadata.labels));
    }
    return objects as readonly Stored<T>[];
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
