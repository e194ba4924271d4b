import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import type { WriteHooks } from "../reconcile/intercepted-client.ts";
import { metadataOf } from "./metadata-only.ts";
import type { WriteVerb } from "../reconcile/reconcile-trace.ts";
import type { CachedKind } from "./cached-kind.ts";
import type { SharedCache } from "./shared-cache.ts";
import { deletionBarrier, versionBarrier } from "./cache-barrier.ts";
import type { CacheWait } from "./cache-wait.ts";

/** Something that the cache has yet to show. */
interface Expectation {
  /** Stops waiting for it. */
  cancel: () => void;
}

/**
 * Remembers, for each request of a controller, which of its writes the cache has not shown yet, so that the next reconcile of
 * it does not act on what was before (a second Pod because the first is not to be seen).
 *
 * Only writes to kinds that are cached count, whichever object they are about. Of `deleteCollection` nothing is remembered.
 */
export class OwnWrites {
  readonly #cache: SharedCache;
  readonly #pending = new Map<string, Set<Expectation>>();
  readonly #waiters = new Map<string, () => void>();

  constructor(cache: SharedCache) {
    this.#cache = cache;
  }

  /**
   * Hooks for a client whose writes are remembered for the request of this id. `vanished` is called when the cache has passed a
   * write without showing it: what was made was deleted while no watch told of it, and no change will ever tell.
   */
  hooksFor(id: string, vanished: () => void): WriteHooks {
    return {
      written: (type, object, verb) => this.#expectVersion(id, type, object, isMaking(verb) ? vanished : undefined),
      deleting: (type, key) => this.#expectDeletion(id, type, key),
    };
  }

  /** Whether the cache shows every write that was made for this request. */
  isSeen(id: string): boolean {
    return !this.#pending.has(id);
  }

  /** Calls `resolve` once {@link isSeen}. Returns the way to stop waiting. One waiter a request. */
  whenSeen(id: string, resolve: () => void): () => void {
    if (this.isSeen(id)) {
      resolve();
      return () => {};
    }
    this.#waiters.set(id, resolve);
    return () => void this.#waiters.delete(id);
  }

  /** Forgets everything. */
  clear(): void {
    for (const expectations of this.#pending.values()) for (const expectation of expectations) expectation.cancel();
    this.#pending.clear();
    this.#waiters.clear();
  }

  /** The kind as the cache has it: whole, by its metadata alone, or both. */
  #cachedKinds(type: ResourceType): readonly CachedKind[] {
    return [this.#cache.find(type), this.#cache.find(metadataOf(type))].filter((kind) => kind !== undefined);
  }

  #expectVersion(
    id: string,
    type: ResourceType,
    object: DeepReadonly<KubernetesObject>,
    vanished: (() => void) | undefined,
  ): void {
    const { metadata } = object;
    // What is made in a subresource may be answered with a Status.
    if (metadata === undefined) return;
    for (const kind of this.#cachedKinds(type)) {
      const wait = versionBarrier(kind, object);
      if (wait === undefined) continue;
      // What was shown before would be told of when it goes.
      const isNew = vanished !== undefined && kind.isKept(object) && kind.store.get(metadata) === undefined;
      this.#expect(id, (met) =>
        wait(() => {
          if (isNew && kind.store.get(metadata) === undefined) vanished();
          met();
        }),
      );
    }
  }

  #expectDeletion(id: string, type: ResourceType, key: ObjectKey): () => void {
    const kinds = this.#cachedKinds(type).map((kind) => ({ kind, uid: kind.get(key)?.metadata.uid }));
    return () => {
      // A delete answers no version to wait for. What the cache does not have it need not lose.
      for (const { kind, uid } of kinds) if (uid !== undefined) this.#expect(id, deletionBarrier(kind, key, uid));
    };
  }

  #expect(id: string, wait: CacheWait | undefined): void {
    if (wait === undefined) return;
    let expectations = this.#pending.get(id);
    if (expectations === undefined) this.#pending.set(id, (expectations = new Set()));
    const expectation: Expectation = { cancel: () => {} };
    expectations.add(expectation);
    expectation.cancel = wait(() => this.#met(id, expectation));
  }

  #met(id: string, expectation: Expectation): void {
    const expectations = this.#pending.get(id);
    if (expectations?.delete(expectation) !== true || expectations.size > 0) return;
    this.#pending.delete(id);
    const resolve = this.#waiters.get(id);
    this.#waiters.delete(id);
    resolve?.();
  }
}

function isMaking(verb: WriteVerb): boolean {
  return verb === "create" || verb === "apply";
}
