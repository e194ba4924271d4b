import { setMaxListeners } from "node:events";
import {
  type DeepReadonly,
  isStatusError,
  type KubernetesObject,
  type ObjectKey,
  type ResourceType,
  type Stored,
} from "@keelson/api-machinery";
import { CacheStoppedError, CacheTimeoutError, type CacheWait, type CacheWaitOptions, waitForCache } from "./cache-wait.ts";
import { CachedKind, type ChangeHandler, type FollowOptions } from "./cached-kind.ts";
import type { CachedObject } from "./cached-object.ts";
import { labelSelectorOf } from "../informer/label-selector.ts";
import { ListGate } from "../informer/list-gate.ts";
import { objectKey, typeId } from "./object-id.ts";
import type { CacheMetrics } from "../metrics/metrics.ts";
import type { OnChange } from "./change.ts";
import type { Cache, CacheListOptions, IndexFunction } from "./cache.ts";
import { deletionBarrier, versionBarrier } from "./cache-barrier.ts";

const resyncMs = 10 * 60 * 60_000;

/** The stores and informers of every kind declared in a manager. */
export class SharedCache implements Cache {
  readonly #options: FollowOptions;
  readonly #kinds = new Map<string, CachedKind>();
  readonly #stop = new AbortController();
  readonly #runs: Promise<void>[] = [];
  readonly #indexes = new Map<CachedKind, Map<string, IndexFunction<KubernetesObject>>>();
  #resyncTimer: { cancel(): void } | undefined;

  constructor(options: FollowOptions) {
    this.#options = { ...options, client: new ListGate(options.client, options.clock) };
    // Every informer listens to it; that is not a leak.
    setMaxListeners(0, this.#stop.signal);
  }

  get kinds(): readonly CachedKind[] {
    return [...this.#kinds.values()];
  }

  /** Declares a kind. Idempotent. */
  declare(type: ResourceType): CachedKind {
    const id = typeId(type);
    let kind = this.#kinds.get(id);
    if (kind === undefined) {
      kind = new CachedKind(type, this.#options);
      this.#kinds.set(id, kind);
    }
    return kind;
  }

  /** Declares an index. Idempotent for the same function. **Errors**: `TypeError` if the name is declared with another function. */
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

  /** Size and staleness of each kind. */
  metrics(): readonly CacheMetrics[] {
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
    return this.#declared(type).get(key) as Stored<T> | undefined;
  }

  list<T extends KubernetesObject>(type: ResourceType<T>, options: CacheListOptions = {}): readonly Stored<T>[] {
    const { store } = this.#declared(type);
    const { labelSelector = "", index, limit = 0 } = options;
    const namespace = type.scope === "Cluster" ? undefined : options.namespace;
    if (index === undefined && labelSelector === "" && limit <= 0) {
      return store.list(namespace) as readonly Stored<T>[];
    }
    const candidates = index === undefined ? store.each(namespace) : store.byIndex(...index);
    if (candidates === undefined) {
      const known = store.indexNames.join(", ") || "none";
      throw new TypeError(
        `${type.kind} has no index ${JSON.stringify(index?.[0])}; declare it in "reads" (declared: ${known})`,
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
    return list as readonly Stored<T>[];
  }

  async whenSeen<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options: CacheWaitOptions = {},
  ): Promise<void> {
    const kind = this.#declared(type);
    const { namespace, resourceVersion } = object.metadata;
    if (resourceVersion === undefined)
      throw new TypeError(`${nameOf(kind, object)} has no metadata.resourceVersion; pass the object that the server returned`);
    const missing = (): string => {
      const has = kind.store.get(object.metadata)?.metadata.resourceVersion ?? "nothing";
      const upTo = kind.informerOf(namespace)?.resourceVersion ?? "nothing";
      return `the cache does not show ${nameOf(kind, object)} at version ${resourceVersion}: it has version ${has} of the object and ${upTo} of the kind`;
    };
    await this.#wait(versionBarrier(kind, object), missing, options);
  }

  async whenDeleted<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options: CacheWaitOptions = {},
  ): Promise<void> {
    const { clock } = this.#options;
    const { timeoutMs = 5_000, signal } = options;
    const startedAt = clock.monotonic();
    // If the cache does not show the object yet, it may still be added and then deleted.
    await this.whenSeen(type, object, { timeoutMs, signal });
    const kind = this.#declared(type);
    const { uid } = object.metadata;
    if (uid === undefined)
      throw new TypeError(`${nameOf(kind, object)} has no metadata.uid; pass the object that the server returned`);
    const missing = (): string => {
      const has = kind.store.get(object.metadata)?.metadata.resourceVersion ?? "nothing";
      return `the cache does not show the deletion of ${nameOf(kind, object)} (uid ${uid}): it has version ${has}`;
    };
    const left = timeoutMs - (clock.monotonic() - startedAt);
    await this.#wait(deletionBarrier(kind, objectKey(object), uid), missing, { timeoutMs: left, signal });
  }

  readonly onChange: OnChange = (type, listener) => {
    return this.#declared(type).addListener(listener as unknown as ChangeHandler);
  };

  /**
   * Starts the informers and waits until each has listed its kind.
   *
   * **Errors**: {@link CacheTimeoutError} with the missing kinds after `timeoutMs`; {@link CacheStoppedError}; the signal's reason.
   */
  async start(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    for (const kind of this.#kinds.values())
      for (const informer of kind.informers) this.#runs.push(informer.run(this.#stop.signal));
    this.#armResync();
    const listed = Promise.all([...this.#kinds.values()].flatMap((kind) => kind.informers.map((informer) => informer.listed)));
    const wait: CacheWait = (reached) => {
      let isWaiting = true;
      void listed.then(() => isWaiting && reached());
      return () => {
        isWaiting = false;
      };
    };
    const late = (): Error => this.#missing(timeoutMs);
    const stopped = (): Error => new CacheStoppedError("the cache was stopped before it was synced");
    await waitForCache(wait, { clock: this.#options.clock, stop: this.#stop.signal, late, stopped }, { timeoutMs, signal });
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

  async #wait(wait: CacheWait | undefined, missing: () => string, options: CacheWaitOptions): Promise<void> {
    if (wait === undefined) return;
    const late = (timeoutMs: number): Error => new CacheTimeoutError(`timed out after ${timeoutMs / 1000} s: ${missing()}`);
    const stopped = (): Error => new CacheStoppedError(`the cache was stopped: ${missing()}`);
    await waitForCache(wait, { clock: this.#options.clock, stop: this.#stop.signal, late, stopped }, options);
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
        ? "the server does not serve this kind"
        : error instanceof Error
          ? error.message
          : "no response";
      return `${typeId(kind.type)} (${reason})`;
    });
    return new CacheTimeoutError(`caches are not synced after ${timeoutMs / 1000} s: ${reasons.join("; ")}`);
  }
}

function nameOf({ type }: CachedKind, { metadata }: DeepReadonly<KubernetesObject>): string {
  return `${typeId(type)} ${metadata.namespace === undefined ? "" : `${metadata.namespace}/`}${metadata.name}`;
}
