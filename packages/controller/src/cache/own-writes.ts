import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import type { WriteHooks } from "../reconcile/intercepted-client.ts";
import { metadataOf } from "./metadata-only.ts";
import type { WriteVerb } from "../reconcile/reconcile-trace.ts";
import type { CachedKind } from "./cached-kind.ts";
import type { SharedCache } from "./shared-cache.ts";
import { deletionBarrier, versionBarrier } from "./cache-barrier.ts";
import type { CacheWait } from "./cache-wait.ts";

/** A write that the cache does not show yet. */
interface Expectation {
  /** Stops waiting. */
  cancel: () => void;
}

/**
 * Tracks, for each request of a controller, the writes that the cache does not show yet, so that the next reconcile does
 * not act on the previous state, for example create a second Pod because the first is not in the cache yet.
 *
 * Only writes to cached kinds are tracked. `deleteCollection` is not.
 */
export class OwnWrites {
  readonly #cache: SharedCache;
  readonly #pending = new Map<string, Set<Expectation>>();
  readonly #waiters = new Map<string, () => void>();

  constructor(cache: SharedCache) {
    this.#cache = cache;
  }

  /**
   * Hooks for a client whose writes are tracked for the request of this id. `onVanished` is called if the cache has passed a create
   * without showing the object: it was deleted while no watch was open, so no change will ever be delivered.
   */
  hooksFor(id: string, onVanished: () => void): WriteHooks {
    return {
      written: (type, object, verb) => this.#expectVersion(id, type, object, createsObject(verb) ? onVanished : undefined),
      deleting: (type, key) => this.#expectDeletion(id, type, key),
    };
  }

  /** Whether the cache shows every write of this request. */
  isSeen(id: string): boolean {
    return !this.#pending.has(id);
  }

  /** Calls `resolve` once {@link isSeen}. Returns a function that stops waiting. At most one waiter per request. */
  whenSeen(id: string, resolve: () => void): () => void {
    if (this.isSeen(id)) {
      resolve();
      return () => {};
    }
    this.#waiters.set(id, resolve);
    return () => void this.#waiters.delete(id);
  }

  /** Stops tracking all writes. */
  clear(): void {
    for (const expectations of this.#pending.values()) for (const expectation of expectations) expectation.cancel();
    this.#pending.clear();
    this.#waiters.clear();
  }

  /** The cached forms of a kind: complete, metadata only, or both. */
  #cachedKinds(type: ResourceType): readonly CachedKind[] {
    return [this.#cache.find(type), this.#cache.find(metadataOf(type))].filter((kind) => kind !== undefined);
  }

  #expectVersion(
    id: string,
    type: ResourceType,
    object: DeepReadonly<KubernetesObject>,
    onVanished: (() => void) | undefined,
  ): void {
    const { metadata } = object;
    // A create in a subresource may return a Status, which has no metadata.
    if (metadata === undefined) return;
    for (const kind of this.#cachedKinds(type)) {
      const wait = versionBarrier(kind, object);
      if (wait === undefined) continue;
      // If the object was stored before, its deletion would be delivered.
      const isNew = onVanished !== undefined && kind.isStored(object) && kind.store.get(metadata) === undefined;
      this.#expect(id, (reached) =>
        wait(() => {
          if (isNew && kind.store.get(metadata) === undefined) onVanished();
          reached();
        }),
      );
    }
  }

  #expectDeletion(id: string, type: ResourceType, key: ObjectKey): () => void {
    const kinds = this.#cachedKinds(type).map((kind) => ({ kind, uid: kind.get(key)?.metadata.uid }));
    return () => {
      // A delete returns no version to wait for. An object that is not cached cannot be stale.
      for (const { kind, uid } of kinds) if (uid !== undefined) this.#expect(id, deletionBarrier(kind, key, uid));
    };
  }

  #expect(id: string, wait: CacheWait | undefined): void {
    if (wait === undefined) return;
    let expectations = this.#pending.get(id);
    if (expectations === undefined) this.#pending.set(id, (expectations = new Set()));
    const expectation: Expectation = { cancel: () => {} };
    expectations.add(expectation);
    expectation.cancel = wait(() => this.#reached(id, expectation));
  }

  #reached(id: string, expectation: Expectation): void {
    const expectations = this.#pending.get(id);
    if (expectations?.delete(expectation) !== true || expectations.size > 0) return;
    this.#pending.delete(id);
    const resolve = this.#waiters.get(id);
    this.#waiters.delete(id);
    resolve?.();
  }
}

function createsObject(verb: WriteVerb): boolean {
  return verb === "create" || verb === "apply";
}
