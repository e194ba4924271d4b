import { setImmediate as nextTurn } from "node:timers/promises";
import { type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { createDeferred } from "./deferred.ts";
import { type Engine, type State, StorageFullError, type View } from "./engine.ts";
import { createHistory } from "./history.ts";
import { decodeRecord, encodeLogEntry, encodeRecord } from "./log-entry.ts";
import { createObjectCache } from "./object-cache.ts";
import { viewPast } from "./past.ts";
import { replayOverTurns } from "./replay.ts";
import type { PinnedState, Store, StoredObject, StoreEvent, StorePage, WriteResult } from "./store.ts";
import { DeletedObject, encodeObject, LazyStoredObject } from "./stored-object.ts";
import { createWatchHub } from "./watch-hub.ts";

/** What {@link createStore} takes besides its engine. */
export interface StoreOptions {
  readonly clock: Clock;
  /** Events older than this are forgotten, as soon as something is written. Default 10 minutes. */
  readonly historyMs?: number;
  /** How many events are kept at most, give or take one commit. Default 100,000. */
  readonly historyEvents?: number;
  /** Bytes of JSON whose objects are kept parsed for readers. Default 8 MiB: parsed, they take several times that. */
  readonly cacheBytes?: number;
  /** A watch listener threw: a bug of its owner. Default: thrown again outside of the store. */
  readonly onListenerError?: (error: unknown) => void;
}

/** A write that is decided and waits for its commit. */
interface PendingWrite {
  readonly event: StoreEvent;
  readonly resolve: (result: WriteResult) => void;
  readonly reject: (error: unknown) => void;
}

/** The state of a key as decided, ahead of what is durable. */
interface PendingState {
  readonly stored: StoredObject | undefined;
  readonly revision: number;
  /** Settles, never rejects, when the commit that holds it has ended. */
  readonly settled: Promise<void>;
}

/** How many entries of the log are read in one turn of the event loop: a few milliseconds. */
const logSlice = 500;

/** How many old events a commit may drop, so that no commit grows long. */
const dropLimit = 2_000;

/**
 * A {@link Store} on an {@link Engine}. A write is decided in memory when it comes, against what is durable plus what waits; all
 * that waits is committed together while the next ones gather (group commit). When the commit is durable, in this order: reads
 * see it, watchers get it, writers are answered. When it fails, everything that waits is refused and it is as if never asked.
 */
export function createStore(engine: Engine, options: StoreOptions): Store {
  const { clock, historyMs = 600_000, historyEvents = 100_000, cacheBytes = 8 * 1024 * 1024 } = options;
  const cache = createObjectCache(cacheBytes);
  const onListenerError =
    options.onListenerError ??
    ((error: unknown): void => {
      queueMicrotask(() => {
        throw error;
      });
    });
  const hub = createWatchHub(onListenerError);
  const overlay = new Map<string, PendingState>();
  let waiting: PendingWrite[] = [];
  let durable = engine.position.revision;
  let compacted = engine.position.compacted;
  let assigned = durable;
  let commits: Promise<void> | undefined;
  let settled = createDeferred<void>();
  let isClosed = false;

  const read = (key: string): StoredObject | undefined => {
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    const value = engine.get(key);
    if (value === undefined) return undefined;
    const record = decodeRecord(value);
    const stored = new LazyStoredObject(key, record.revision, record.bytes);
    cache.set(stored);
    return stored;
  };
  /** A key in a state that may be older than the newest. */
  const readIn = (state: State, key: string): StoredObject | undefined => {
    const value = state.get(key);
    return value && shared(key, value);
  };
  /** An object of a state: as it is in memory, if it is there. */
  const shared = (key: string, value: Uint8Array): StoredObject => {
    const record = decodeRecord(value);
    const cached = cache.get(key);
    return cached?.revision === record.revision ? cached : new LazyStoredObject(key, record.revision, record.bytes);
  };
  const history = createHistory({ engine, read: readIn, historyMs, historyEvents, now: () => clock.now() });

  /** Commits what waits until nothing does. */
  const run = async (): Promise<void> => {
    while (waiting.length > 0) {
      const writes = waiting;
      const ended = settled;
      waiting = [];
      settled = createDeferred<void>();
      const revision = writes.at(-1)?.event.revision ?? durable;
      const upTo = Math.min(history.compactTo(durable), compacted + dropLimit + 2 * writes.length);
      const last = new Map<string, PendingWrite>(writes.map((write) => [write.event.object.key, write]));
      const timeMs = clock.now();
      try {
        await engine.commit({
          // Of two writes to one key in one commit the later one stands.
          objects: [...last].map(([key, { event }]) => ({
            key,
            value: event.type === "put" ? encodeRecord(event.revision, event.object.bytes) : undefined,
          })),
          log: writes.map(({ event }) => ({
            revision: event.revision,
            value: encodeLogEntry({
              type: event.type,
              timeMs,
              key: event.object.key,
              previousRevision: event.previous?.revision ?? 0,
              previousBytes: event.previous?.bytes,
            }),
          })),
          position: { revision, compacted: Math.max(compacted, upTo) },
          dropAfter: compacted,
        });
      } catch (cause) {
        refuseAll(writes, cause);
        ended.resolve();
        continue;
      }
      durable = revision;
      compacted = Math.max(compacted, upTo);
      history.mark(revision, timeMs);
      for (const [key, { event }] of last) {
        if (overlay.get(key)?.revision === event.revision) overlay.delete(key);
        if (event.type === "put") cache.set(event.object);
        else cache.delete(key);
      }
      hub.publish(writes.map(({ event }) => event));
      for (const { event, resolve } of writes) resolve({ ok: true, stored: event.object });
      ended.resolve();
    }
    commits = undefined;
  };

  /** Nothing of `writes` is durable, and what came after may build on them. Their revisions are never used again. */
  const refuseAll = (writes: readonly PendingWrite[], cause: unknown): void => {
    const refused = [...writes, ...waiting];
    waiting = [];
    overlay.clear();
    const why = cause instanceof Error ? cause.message : String(cause);
    const reason = cause instanceof StorageFullError ? "InsufficientStorage" : "InternalError";
    for (const { reject } of refused) {
      const error = statusError(reason, `the storage could not write: ${why}`);
      error.cause = cause;
      reject(error);
    }
    settled.resolve();
    settled = createDeferred<void>();
  };

  const requireOpen = (): void => {
    if (isClosed) throw statusError("ServiceUnavailable", "the storage is closed");
  };

  const write = async (key: string, expected: number, object: KubernetesObject | undefined): Promise<WriteResult> => {
    requireOpen();
    const pending = overlay.get(key);
    const current = pending ? pending.stored : read(key);
    if ((current?.revision ?? 0) !== expected) {
      if (pending === undefined) return { ok: false, current };
      // The answer shows what is durable, so it waits; if that commit fails, the question is open again.
      await pending.settled;
      const now = read(key);
      return (now?.revision ?? 0) === expected ? write(key, expected, object) : { ok: false, current: now };
    }
    if (object === undefined && current === undefined) return { ok: false, current: undefined };
    assigned += 1;
    const revision = assigned;
    const event = eventOf(key, revision, object, current);
    overlay.set(key, { stored: object && event.object, revision, settled: settled.promise });
    const answer = createDeferred<WriteResult>();
    waiting.push({ event, resolve: answer.resolve, reject: answer.reject });
    // Not at once: whoever writes in the same turn shares the commit.
    commits ??= Promise.resolve().then(run);
    return answer.promise;
  };

  const list: Store["list"] = (prefix, { limit, startAfter } = {}) => {
    requireOpen();
    const start = startAfter === undefined ? prefix : after(startAfter);
    const end = endOfPrefix(prefix);
    const page = readRange(engine, start, end, limit);
    const remaining = page.next === undefined ? 0 : engine.count(after(page.next), end);
    return { ...page, revision: durable, remaining };
  };

  /** Objects of a state, those that are in memory as they are there. */
  const readRange = (
    view: View,
    start: string,
    end: string | undefined,
    limit = Number.POSITIVE_INFINITY,
  ): Pick<StorePage, "items" | "next"> => {
    const items: StoredObject[] = [];
    for (const { key, value } of view.range(start, end)) {
      const last = items.at(-1)?.key;
      if (items.length >= limit && last !== undefined) return { items, next: last };
      items.push(shared(key, value));
    }
    return { items };
  };

  const pinned = (view: View, revision: number, release: () => void): PinnedState => ({
    revision,
    list(prefix, { limit, startAfter }) {
      requireOpen();
      return readRange(view, startAfter === undefined ? prefix : after(startAfter), endOfPrefix(prefix), limit);
    },
    countAfter(prefix, key) {
      requireOpen();
      return view.count(after(key), endOfPrefix(prefix));
    },
    [Symbol.dispose]: release,
  });

  const pin = (): PinnedState => {
    requireOpen();
    const held = engine.pin();
    return pinned(held, durable, held.release);
  };

  const pinAt: Store["pinAt"] = async (prefix, revision) => {
    if (revision >= durable) return pin();
    requireOpen();
    if (revision < compacted) throw tooOld(revision, compacted);
    const held = engine.pin();
    try {
      const pause = async (): Promise<void> => {
        await nextTurn();
        requireOpen();
      };
      return pinned(await viewPast(held, prefix, revision, { slice: logSlice, pause }), revision, held.release);
    } catch (error) {
      held.release();
      throw error;
    }
  };

  const watch: Store["watch"] = (prefix, afterRevision, listener, onError = onListenerError) => {
    requireOpen();
    if (afterRevision < compacted) throw tooOld(afterRevision, compacted);
    if (durable - afterRevision > logSlice) {
      const held = engine.pin();
      return replayOverTurns({
        reading: history.eventsAfter(held, prefix, afterRevision, logSlice),
        release: held.release,
        subscribe: (live) => hub.add(prefix, durable, live),
        listener,
        onError,
        isEnded: () => isClosed,
      });
    }
    // All in one turn: nothing can be committed between the replay and the first live event.
    const past =
      afterRevision < durable
        ? history.eventsAfter(engine, prefix, afterRevision, Number.POSITIVE_INFINITY).next().value
        : undefined;
    const { close } = hub.add(prefix, Math.max(afterRevision, durable), listener);
    if (past !== undefined && past.length > 0) listener(past, true);
    return { close };
  };

  return {
    get revision() {
      return durable;
    },
    get(key) {
      requireOpen();
      return read(key);
    },
    list,
    pin,
    pinAt,
    write,
    watch,
    async close() {
      if (isClosed) return;
      isClosed = true;
      await commits;
      await engine.close();
    },
  };
}

function eventOf(
  key: string,
  revision: number,
  object: KubernetesObject | undefined,
  previous: StoredObject | undefined,
): StoreEvent {
  if (object !== undefined) return { type: "put", revision, object: encodeObject(key, revision, object), previous };
  if (previous === undefined) throw new TypeError(`nothing to delete at ${key}`);
  return { type: "delete", revision, object: new DeletedObject(previous, revision), previous };
}

/** The first string after `key`. */
function after(key: string): string {
  return `${key}\u0000`;
}

/** The first string after all that begin with `prefix`. */
function endOfPrefix(prefix: string): string | undefined {
  if (prefix === "") return undefined;
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
}

function tooOld(revision: number, compacted: number): Error {
  return statusError("Expired", `too old resource version: ${revision} (${compacted})`);
}
