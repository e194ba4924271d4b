import { setImmediate as nextTurn } from "node:timers/promises";
import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { compareResourceVersions, isResourceVersion } from "@keelson/api-machinery/transport";
import { type Client, isTransportError, type ListOptions, type TypedWatch } from "@keelson/client";
import { type CacheSelection, transformed } from "../cache/cache-options.ts";
import { type CachedObject, cachedObject } from "../cache/cached-object.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { EventDecoder } from "./event-decoder.ts";
import { InformerBackoff } from "./informer-backoff.ts";
import {
  type InformerInput,
  type InformerState,
  initialInformerState,
  initialStreamState,
  type StoreEffect,
  stepInformer,
} from "./informer-state.ts";
import { StreamTimeout } from "./stream-timeout.ts";
import type { Logger } from "../logging/logger.ts";
import { isMetadataOnly } from "../cache/metadata-only.ts";

/** Objects per page of a list. */
const pageSize = 500;
/** A watch that ends within this time without an event counts as failed. */
const briefMs = 1_000;
/** Handlers run for at most this long, and one event, before other work of the event loop proceeds. */
const maxTurnMs = 20;
/** Without an event for this long, an incomplete initial stream is replaced by a list: the server may not support it. */
const streamTimeoutMs = 10_000;

/** Options of {@link Informer}. */
export interface InformerOptions {
  readonly client: Client;
  readonly type: ResourceType;
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Which objects to follow, and how to transform them. Default: all, unchanged. */
  readonly selection?: CacheSelection;
  /** See `CacheOptions.initialList`. Default `pages`. */
  readonly initialList?: "pages" | "stream" | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** The stored object of the same name, so that unchanged parts are shared with it. */
  readonly current?: (object: DeepReadonly<KubernetesObject>) => CachedObject | undefined;
  /** Applies an effect to the store. Called one at a time, in the server's order; must not throw. */
  readonly onEffect: (effect: StoreEffect) => void;
  /** Called when something succeeds after a failure. Must not throw. */
  readonly onRecovered?: () => void;
}

/**
 * Lists one kind, watches it from there, and lists again after the server has compacted its resource version. Never gives up; failures
 * are retried as {@link InformerBackoff} says.
 */
export class Informer {
  readonly #options: InformerOptions;
  readonly #backoff: InformerBackoff;
  readonly #waiters = new Set<{ readonly resourceVersion: string; readonly resolve: () => void }>();
  #state: InformerState;
  #version: string | undefined;
  #lastError: unknown;
  #receivedAt: number | undefined;
  #watches = 0;
  readonly #listed = createDeferred<void>();
  readonly #decoder: EventDecoder;

  constructor(options: InformerOptions) {
    this.#options = options;
    const { type, current = () => undefined, selection } = options;
    this.#decoder = new EventDecoder(type, current, selection?.transform !== undefined);
    this.#state = options.initialList === "stream" ? initialStreamState : initialInformerState;
    this.#backoff = new InformerBackoff(options.clock, options.random);
  }

  /** Settles when the first list is in the store. */
  get listed(): Promise<void> {
    return this.#listed.promise;
  }

  /** The resource version up to which the store is complete; `undefined` before the first list. */
  get resourceVersion(): string | undefined {
    return this.#version;
  }

  /** The last failure, until something succeeds. */
  get lastError(): unknown {
    return this.#lastError;
  }

  /** Milliseconds since the last list, event or bookmark. `undefined` before the first list. */
  get silentMs(): number | undefined {
    return this.#receivedAt === undefined ? undefined : this.#options.clock.monotonic() - this.#receivedAt;
  }

  /** Number of watches opened so far. */
  get watches(): number {
    return this.#watches;
  }

  /** Whether the store is complete up to this version. Versions that are not numbers cannot be compared and count as seen. */
  hasSeen(resourceVersion: string): boolean {
    if (this.#version === undefined) return false;
    if (!isResourceVersion(this.#version) || !isResourceVersion(resourceVersion)) return true;
    return compareResourceVersions(this.#version, resourceVersion) >= 0;
  }

  /** Calls `resolve` once, when {@link hasSeen} becomes true. Returns a function that stops waiting. */
  whenSeen(resourceVersion: string, resolve: () => void): () => void {
    const waiter = { resourceVersion, resolve };
    this.#waiters.add(waiter);
    return () => void this.#waiters.delete(waiter);
  }

  /** Runs until the signal is aborted; then returns. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let mustWait: boolean;
      try {
        const state = this.#state;
        mustWait = await (state.kind === "list" ? this.#list(state, signal) : this.#follow(state, signal));
      } catch (error) {
        if (signal.aborted) return;
        mustWait = this.#step({ kind: "failed", error }) === "wait";
      }
      if (!mustWait || signal.aborted) continue;
      await sleep(this.#options.clock, this.#backoff.next(this.#lastError), signal).catch(() => {});
    }
  }

  async #list(state: Extract<InformerState, { kind: "list" }>, signal: AbortSignal): Promise<boolean> {
    const { client, type } = this.#options;
    const list = await client.list(type, {
      ...this.#scope(signal),
      limit: pageSize,
      ...(state.continue === undefined ? notOlderThan(state) : { continue: state.continue }),
    });
    const items = list.items.map((item) => this.#normalize(item));
    const { resourceVersion = "", continue: token } = list.metadata;
    return this.#step({ kind: "page", items, resourceVersion, continue: token }) === "wait";
  }

  /** Reads a watch until it ends: from a version on, or beginning with the initial state. */
  async #follow(state: Exclude<InformerState, { kind: "list" }>, signal: AbortSignal): Promise<boolean> {
    const { client, type, namespace, clock, random, log } = this.#options;
    const openedAt = clock.monotonic();
    const watch: TypedWatch<KubernetesObject> = await client.watch(type, {
      ...this.#scope(signal),
      ...(state.kind === "watch"
        ? { resourceVersion: state.resourceVersion }
        : { resourceVersionMatch: "NotOlderThan" as const, ...notOlderThan(state), sendInitialEvents: true }),
      allowWatchBookmarks: true,
      timeoutSeconds: Math.floor(300 + random() * 300),
      decode: this.#decoder.decode,
    });
    this.#succeeded();
    this.#watches++;
    const timeout = state.kind === "stream" ? new StreamTimeout(clock, streamTimeoutMs, () => watch.close()) : undefined;
    let events = 0;
    let busyMs = 0;
    try {
      for await (const batch of watch.batches?.() ?? oneByOne(watch)) {
        timeout?.received();
        for (const event of batch) {
          if (signal.aborted) return false;
          events++;
          const object =
            event.type === "ADDED" || event.type === "MODIFIED" || event.type === "DELETED"
              ? this.#normalize(event.object)
              : event.object;
          const startedAt = clock.monotonic();
          const next = this.#step({ kind: "event", event: { type: event.type, object } });
          if (next !== "stay") return next === "wait";
          busyMs += clock.monotonic() - startedAt;
          if (busyMs < maxTurnMs) continue;
          // Thousands of events arrive together, and an event can concern thousands of objects.
          busyMs = 0;
          await nextTurn();
        }
        // The initial state is complete.
        if (this.#state.kind === "watch") timeout?.cancel();
      }
    } catch (error) {
      // A connection that worked and breaks is treated like a watch that the server ends: it is reopened immediately.
      const wasBrief = events === 0 && clock.monotonic() - openedAt < briefMs;
      if (wasBrief || this.#state.kind !== "watch" || signal.aborted || !isTransportError(error)) throw error;
      log.debug({ err: error, kind: type.kind, namespace }, "watch connection lost; reopening");
    } finally {
      timeout?.cancel();
      watch.close();
    }
    if (signal.aborted) return false;
    if (timeout?.hasFired) return this.#step({ kind: "silent" }) === "wait";
    return this.#step({ kind: "ended", brief: events === 0 && clock.monotonic() - openedAt < briefMs }) === "wait";
  }

  #scope(signal: AbortSignal): ListOptions {
    const { type, namespace, selection } = this.#options;
    return {
      namespace,
      labelSelector: selection?.labelSelector,
      fieldSelector: selection?.fieldSelector,
      metadataOnly: isMetadataOnly(type),
      signal,
    };
  }

  #step(input: InformerInput): "stay" | "go" | "wait" {
    const { state, effect, next, error } = stepInformer(this.#state, input);
    this.#state = state;
    if (effect?.kind === "replace") this.#decoder.forgetAll();
    if (effect !== undefined) this.#options.onEffect(effect);
    if (error !== undefined) {
      this.#lastError = error;
      const { log, type, namespace } = this.#options;
      log.warn({ err: error, kind: type.kind, namespace, state: state.kind }, "informer failed; retrying");
    } else {
      this.#succeeded();
      this.#receivedAt = this.#options.clock.monotonic();
    }
    // Last, so that callers who wait for a version find the store and the queues filled.
    if (state.kind === "watch") this.#advance(state.resourceVersion);
    return next;
  }

  #succeeded(): void {
    if (this.#lastError === undefined) return;
    this.#lastError = undefined;
    this.#options.onRecovered?.();
  }

  #advance(version: string): void {
    if (this.#version === version) return;
    if (this.#version === undefined) this.#listed.resolve(undefined);
    this.#version = version;
    if (this.#waiters.size === 0) return;
    for (const waiter of this.#waiters) {
      if (!this.hasSeen(waiter.resourceVersion)) continue;
      this.#waiters.delete(waiter);
      waiter.resolve();
    }
  }

  #normalize(sent: DeepReadonly<KubernetesObject>): CachedObject {
    const { type, current, selection, log } = this.#options;
    let object = sent;
    if (selection?.transform !== undefined) {
      try {
        object = transformed(selection.transform, sent);
      } catch (error) {
        const { namespace, name } = sent.metadata;
        log.error({ err: error, kind: type.kind, namespace, name }, "transform failed; caching the object unchanged");
      }
    }
    // A frozen object is kept as it is and shares nothing with the stored one.
    return cachedObject(object, type, Object.isFrozen(object) ? undefined : current?.(object));
  }
}

function notOlderThan(state: {
  readonly notOlderThan?: string;
}): Pick<ListOptions, "resourceVersion" | "resourceVersionMatch"> {
  return state.notOlderThan === undefined
    ? {}
    : { resourceVersion: state.notOlderThan, resourceVersionMatch: "NotOlderThan" as const };
}

async function* oneByOne<E>(events: AsyncIterable<E>): AsyncGenerator<readonly E[], void, undefined> {
  for await (const event of events) yield [event];
}
