import { setImmediate as nextTurn } from "node:timers/promises";
import { type KubernetesObject, type StatusError, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Engine, KeyValue, PinnedEngineState, State, View } from "../database/engine.ts";
import { endOfPrefix, keyAfter } from "../database/key-order.ts";
import type {
  PinnedState,
  Store,
  StoredObject,
  StoreEvent,
  StoredVisitor,
  StorePage,
  StoreWatch,
  WatchListener,
  WriteResult,
} from "../store.ts";
import { LogReplay } from "../watch/log-replay.ts";
import { WatchHub } from "../watch/watch-hub.ts";
import { CommitQueue } from "./commit-queue.ts";
import { History } from "./history.ts";
import { decodeRecord } from "./log-entry.ts";
import { ObjectCache } from "./object-cache.ts";
import { viewPast } from "./past-view.ts";
import { LazyStoredObject } from "./stored-object.ts";

/** Options of a {@link TransactionStore}. */
export interface StoreOptions {
  readonly clock: Clock;
  /** Events older than this are dropped with the next write. Default 5 minutes, the interval at which kube-apiserver compacts. */
  readonly historyMs?: number;
  /** The maximum number of events to keep, give or take one commit. Default 100,000. */
  readonly historyEvents?: number;
  /** The maximum size of the events to keep, give or take a sixty-fourth and those of a former process. Default 512 MiB. */
  readonly historyBytes?: number;
  /** Bytes of JSON whose objects stay parsed for readers; parsed, they take several times that. Default 8 MiB. */
  readonly cacheBytes?: number;
  /** Receives what a watch listener throws, which is a bug of its owner. Default: rethrown outside the store. */
  readonly onListenerError?: (error: unknown) => void;
}

const mebibyte = 1024 * 1024;

/** Log entries read per turn of the event loop: a few milliseconds. */
const logSlice = 500;

/**
 * A {@link Store} on an {@link Engine}. A write is decided in memory when it arrives, against the durable state plus pending writes, and
 * committed with others. Once durable, in this order: readers see it, watchers receive it, writers get their answers. If a commit fails,
 * everything pending is rejected and has no effect.
 */
export class TransactionStore implements Store {
  readonly #engine: Engine;
  readonly #cache: ObjectCache;
  readonly #hub: WatchHub;
  readonly #history: History;
  readonly #commits: CommitQueue;
  readonly #onListenerError: (error: unknown) => void;
  #isClosed = false;

  constructor(engine: Engine, options: StoreOptions) {
    const { clock, historyMs = 300_000, historyEvents = 100_000, cacheBytes = 8 * mebibyte } = options;
    this.#engine = engine;
    this.#cache = new ObjectCache(cacheBytes);
    this.#onListenerError = options.onListenerError ?? rethrow;
    this.#hub = new WatchHub(this.#onListenerError);
    this.#history = new History({
      engine,
      read: (state, key) => this.#readIn(state, key),
      historyMs,
      historyEvents,
      historyBytes: options.historyBytes ?? 512 * mebibyte,
      now: () => clock.now(),
    });
    this.#commits = new CommitQueue({ engine, clock, history: this.#history, publish: (events) => this.#publish(events) });
  }

  get revision(): number {
    return this.#commits.durable;
  }

  get(key: string): StoredObject | undefined {
    this.#requireOpen();
    return this.#read(key);
  }

  list(prefix: string, { limit, startAfter }: { limit?: number; startAfter?: string } = {}): StorePage {
    this.#requireOpen();
    const start = startAfter === undefined ? prefix : keyAfter(startAfter);
    const end = endOfPrefix(prefix);
    return { ...this.#readRange(this.#engine, start, end, { limit }), revision: this.revision };
  }

  pin(): PinnedState {
    this.#requireOpen();
    const held = this.#engine.pin();
    return this.#pinned(held, this.revision, held);
  }

  async pinAt(prefix: string, revision: number): Promise<PinnedState> {
    if (revision >= this.revision) return this.pin();
    this.#requireOpen();
    this.#requireHistory(revision);
    const held = this.#engine.pin();
    try {
      const pause = async (): Promise<void> => {
        await nextTurn();
        this.#requireOpen();
      };
      return this.#pinned(await viewPast(held, prefix, revision, { slice: logSlice, pause }), revision, held);
    } catch (error) {
      held.release();
      throw error;
    }
  }

  async write(key: string, expected: number, object: KubernetesObject | undefined): Promise<WriteResult> {
    this.#requireOpen();
    const pending = this.#commits.pending(key);
    const current = pending ? pending.stored : this.#read(key);
    if ((current?.revision ?? 0) !== expected) {
      if (pending === undefined) return { ok: false, current };
      // The answer shows the durable state, so wait for it; if that commit fails, decide again.
      await pending.settled;
      const durable = this.#read(key);
      return (durable?.revision ?? 0) === expected ? this.write(key, expected, object) : { ok: false, current: durable };
    }
    if (object === undefined && current === undefined) return { ok: false, current: undefined };
    return this.#commits.add(key, object, current);
  }

  watch(
    prefix: string,
    afterRevision: number,
    listener: WatchListener,
    onError: (error: unknown) => void = this.#onListenerError,
  ): StoreWatch {
    this.#requireOpen();
    this.#requireHistory(afterRevision);
    const durable = this.revision;
    if (durable - afterRevision > logSlice) return this.#replaySlowly(prefix, afterRevision, listener, onError);
    // All in one turn: nothing can be committed between the replay and the first live event.
    const past =
      afterRevision < durable
        ? this.#history.eventsAfter(this.#engine, prefix, afterRevision, Number.POSITIVE_INFINITY).next().value
        : undefined;
    const { close } = this.#hub.add(prefix, Math.max(afterRevision, durable), listener);
    if (past !== undefined && past.length > 0) listener(past, true);
    return { close };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#commits.drain();
    await this.#engine.close();
  }

  #replaySlowly(prefix: string, after: number, listener: WatchListener, onError: (error: unknown) => void): StoreWatch {
    const held = this.#engine.pin();
    return new LogReplay({
      reading: this.#history.eventsAfter(held, prefix, after, logSlice),
      release: () => held.release(),
      subscribe: (live) => this.#hub.add(prefix, this.revision, live),
      listener,
      onError,
      isStoreClosed: () => this.#isClosed,
    });
  }

  #read(key: string): StoredObject | undefined {
    const cached = this.#cache.get(key);
    if (cached !== undefined) return cached;
    const value = this.#engine.get(key);
    if (value === undefined) return undefined;
    const record = decodeRecord(value);
    const stored = new LazyStoredObject(key, record.revision, record.bytes);
    this.#cache.set(stored);
    return stored;
  }

  /** Reads a key in a state that may be older than the newest. */
  #readIn(state: State, key: string): StoredObject | undefined {
    const value = state.get(key);
    return value && this.#shared(key, value);
  }

  /** The object of a value: the cached one if it has the same revision. */
  #shared(key: string, value: Uint8Array): StoredObject {
    const record = decodeRecord(value);
    const cached = this.#cache.get(key);
    return cached?.revision === record.revision ? cached : new LazyStoredObject(key, record.revision, record.bytes);
  }

  #readRange(
    view: View,
    start: string,
    end: string | undefined,
    {
      limit,
      maxBytes = Number.POSITIVE_INFINITY,
    }: { readonly limit: number | undefined; readonly maxBytes?: number | undefined },
  ): Pick<StorePage, "items" | "next"> {
    const items: StoredObject[] = [];
    let bytes = 0;
    for (const { key, value } of view.range(start, end)) {
      const last = items.at(-1)?.key;
      const isFull = items.length >= (limit ?? Number.POSITIVE_INFINITY) || bytes >= maxBytes;
      if (isFull && last !== undefined) return { items, next: last };
      items.push(this.#shared(key, value));
      bytes += value.length;
    }
    return { items };
  }

  #pinned(view: View, revision: number, held: PinnedEngineState): PinnedState {
    return {
      revision,
      list: (prefix, { limit, maxBytes, startAfter }) => {
        this.#requireOpen();
        const start = startAfter === undefined ? prefix : keyAfter(startAfter);
        return this.#readRange(view, start, endOfPrefix(prefix), { limit, maxBytes });
      },
      visit: (prefix, { limit, maxBytes, startAfter }, visit) => {
        this.#requireOpen();
        return visitRange(view.borrow(keyAfter(startAfter), endOfPrefix(prefix)), { limit, maxBytes }, visit);
      },
      countAfter: (prefix, key) => {
        this.#requireOpen();
        return view.count(keyAfter(key), endOfPrefix(prefix));
      },
      [Symbol.dispose]: () => held.release(),
    };
  }

  #publish(events: readonly StoreEvent[]): void {
    for (const { type, object } of events) {
      if (type === "put") this.#cache.set(object);
      else this.#cache.delete(object.key);
    }
    this.#hub.publish(events);
  }

  #requireOpen(): void {
    if (this.#isClosed) throw statusError("ServiceUnavailable", "the storage is closed");
  }

  #requireHistory(revision: number): void {
    const { compacted } = this.#commits;
    if (revision < compacted) throw tooOld(revision, compacted);
  }
}

/** Returns the last visited key if more may follow. */
function visitRange(
  entries: Iterable<KeyValue>,
  { limit, maxBytes }: { readonly limit: number; readonly maxBytes: number },
  visit: StoredVisitor,
): string | undefined {
  let count = 0;
  let bytes = 0;
  let last: string | undefined;
  for (const { key, value } of entries) {
    if (last !== undefined && (count >= limit || bytes >= maxBytes)) return last;
    const record = decodeRecord(value);
    if (!visit(key, record.revision, record.bytes)) return key;
    last = key;
    count += 1;
    bytes += value.length;
  }
  return undefined;
}

function rethrow(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

function tooOld(revision: number, compacted: number): StatusError {
  return statusError("Expired", `too old resource version: ${revision} (${compacted})`);
}
