import { type DeepReadonly, isStatusError, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { type Clock, sleep, type Timer } from "@keelson/api-machinery/time";
import { compareResourceVersions, isResourceVersion } from "@keelson/api-machinery/transport";
import { type Client, isTransportError, type ListOptions, type TypedWatch } from "@keelson/client";
import { type CacheSelection, transformed } from "../cache/cache-options.ts";
import { type CachedObject, cachedObject } from "../cache/cached-object.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { EventDecoder } from "./event-decoder.ts";
import { ExponentialBackoff } from "../queue/exponential-backoff.ts";
import {
  type InformerInput,
  type InformerState,
  initialInformerState,
  initialStreamState,
  type StoreEffect,
  stepInformer,
} from "./informer-state.ts";
import type { Logger } from "../logging/logger.ts";
import { isMetadataOnly } from "../cache/metadata-only.ts";

/** Objects asked for at once. */
const pageSize = 500;
/** A watch that the server ends within this time and without an event is treated as failed. */
const briefMs = 1_000;
/** A stream that brings nothing for this long, before its first state is complete, is given up for a list. */
const streamPatienceMs = 10_000;

/** Options of {@link Informer}. */
export interface InformerOptions {
  readonly client: Client;
  readonly type: ResourceType;
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Which objects, and what of them. Default: all of all. */
  readonly selection?: CacheSelection;
  /** See `CacheOptions.initialList`. Default `pages`. */
  readonly initialList?: "pages" | "stream" | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** The object of this name as the store has it, so that what did not change is kept once. */
  readonly current?: (object: DeepReadonly<KubernetesObject>) => CachedObject | undefined;
  /** Carries an effect out on the store. Called one at a time, in the server's order; must not throw. */
  readonly onEffect: (effect: StoreEffect) => void;
}

/**
 * Follows one kind: lists it, watches it from there, and begins again where the server has forgotten. Never gives up; what
 * fails is repeated with backoff (800 ms to 30 s, doubled, with jitter).
 */
export class Informer {
  readonly #options: InformerOptions;
  readonly #backoff: ExponentialBackoff;
  readonly #waiters = new Set<{ readonly resourceVersion: string; readonly resolve: () => void }>();
  #state: InformerState;
  #version: string | undefined;
  #lastError: unknown;
  #heardAt: number | undefined;
  #watches = 0;
  readonly #listed = createDeferred<void>();
  readonly #decoder: EventDecoder;

  constructor(options: InformerOptions) {
    this.#options = options;
    const { type, current = () => undefined, selection } = options;
    this.#decoder = new EventDecoder(type, current, selection?.transform !== undefined);
    this.#state = options.initialList === "stream" ? initialStreamState : initialInformerState;
    this.#backoff = new ExponentialBackoff({
      clock: options.clock,
      random: options.random,
      baseMs: 800,
      maxMs: 30_000,
      resetAfterMs: 120_000,
      jitter: 1,
    });
  }

  /** Settles when the first list is in the store. */
  get listed(): Promise<void> {
    return this.#listed.promise;
  }

  /** The resource version up to which the store is complete; `undefined` before the first list. */
  get resourceVersion(): string | undefined {
    return this.#version;
  }

  /** What failed last, until something succeeds. */
  get lastError(): unknown {
    return this.#lastError;
  }

  /** Milliseconds since the server last said something that counts: a list, an event, a bookmark. Absent before the first list. */
  get silentMs(): number | undefined {
    return this.#heardAt === undefined ? undefined : this.#options.clock.monotonic() - this.#heardAt;
  }

  /** Watches that were opened so far. */
  get watches(): number {
    return this.#watches;
  }

  /** Whether the store has everything up to this version. Versions that are not numbers count as seen: nothing can be said. */
  hasSeen(resourceVersion: string): boolean {
    if (this.#version === undefined) return false;
    if (!isResourceVersion(this.#version) || !isResourceVersion(resourceVersion)) return true;
    return compareResourceVersions(this.#version, resourceVersion) >= 0;
  }

  /** Calls `resolve` once, when {@link hasSeen} becomes true. Returns the way to stop waiting. */
  whenSeen(resourceVersion: string, resolve: () => void): () => void {
    const waiter = { resourceVersion, resolve };
    this.#waiters.add(waiter);
    return () => void this.#waiters.delete(waiter);
  }

  /** Runs until the signal fires; then returns. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let wait: boolean;
      try {
        const state = this.#state;
        wait = await (state.kind === "list" ? this.#list(state, signal) : this.#follow(state, signal));
      } catch (error) {
        if (signal.aborted) return;
        wait = this.#step({ kind: "failed", error }) === "wait";
      }
      if (!wait || signal.aborted) continue;
      await sleep(this.#options.clock, this.#delay(), signal).catch(() => {});
    }
  }

  async #list(state: Extract<InformerState, { kind: "list" }>, signal: AbortSignal): Promise<boolean> {
    const { client, type } = this.#options;
    const list = await client.list(type, {
      ...this.#scope(signal),
      limit: pageSize,
      ...(state.continue === undefined ? notOlderThan(state) : { continue: state.continue }),
    });
    const items = list.items.map((item) => this.#normalise(item));
    const { resourceVersion = "", continue: token } = list.metadata;
    return this.#step({ kind: "page", items, resourceVersion, continue: token }) === "wait";
  }

  /** Reads a watch until it ends: one from a version on, or one that begins with all there is. */
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
    this.#lastError = undefined;
    this.#watches++;
    const patience = state.kind === "stream" ? this.#patience(watch) : undefined;
    let events = 0;
    try {
      for await (const batch of watch.batches?.() ?? oneByOne(watch)) {
        patience?.heard();
        for (const event of batch) {
          if (signal.aborted) return false;
          events++;
          const object =
            event.type === "ADDED" || event.type === "MODIFIED" || event.type === "DELETED"
              ? this.#normalise(event.object)
              : event.object;
          const next = this.#step({ kind: "event", event: { type: event.type, object } });
          if (next !== "stay") return next === "wait";
        }
      }
    } catch (error) {
      // A connection that was good for something and breaks is as one that the server ends: the next one is opened at once.
      const wasBrief = events === 0 && clock.monotonic() - openedAt < briefMs;
      if (wasBrief || this.#state.kind !== "watch" || signal.aborted || !isTransportError(error)) throw error;
      log.debug({ err: error, kind: type.kind, namespace }, "a watch broke; it is opened again");
    } finally {
      patience?.end();
      watch.close();
    }
    if (signal.aborted) return false;
    if (patience?.isOver) return this.#step({ kind: "silent" }) === "wait";
    return this.#step({ kind: "ended", brief: events === 0 && clock.monotonic() - openedAt < briefMs }) === "wait";
  }

  /** Closes a stream that is silent for too long before its first state is complete; servers may not know what was asked. */
  #patience(watch: { close(): void }): { readonly heard: () => void; readonly end: () => void; readonly isOver: boolean } {
    const { clock } = this.#options;
    let heardAt = clock.monotonic();
    let isOver = false;
    const arm = (delayMs: number): Timer =>
      clock.setTimer(delayMs, () => {
        if (this.#state.kind !== "stream") return;
        const left = heardAt + streamPatienceMs - clock.monotonic();
        if (left > 0) {
          timer = arm(left);
          return;
        }
        isOver = true;
        watch.close();
      });
    let timer = arm(streamPatienceMs);
    return {
      heard: () => {
        heardAt = clock.monotonic();
      },
      end: () => timer.cancel(),
      get isOver() {
        return isOver;
      },
    };
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
      log.warn({ err: error, kind: type.kind, namespace, state: state.kind }, "informer failed; it goes on");
    } else {
      this.#lastError = undefined;
      this.#heardAt = this.#options.clock.monotonic();
    }
    // Told last: whoever waits for a version finds the store and the queues filled.
    if (state.kind === "watch") this.#advance(state.resourceVersion);
    return next;
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

  #delay(): number {
    const backoff = this.#backoff.next();
    const error = this.#lastError;
    const asked = isStatusError(error) ? (error.status.details?.retryAfterSeconds ?? 0) * 1000 : 0;
    return Math.max(backoff, asked);
  }

  #normalise(sent: DeepReadonly<KubernetesObject>): CachedObject {
    const { type, current, selection, log } = this.#options;
    let object = sent;
    if (selection?.transform !== undefined) {
      try {
        object = transformed(selection.transform, sent);
      } catch (error) {
        const { namespace, name } = sent.metadata;
        log.error({ err: error, kind: type.kind, namespace, name }, "a transform failed; the object is kept as it came");
      }
    }
    // One that is frozen is kept as it is, whatever was there before.
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
