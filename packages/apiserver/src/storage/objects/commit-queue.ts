import { setImmediate as endOfTurn } from "node:timers/promises";
import { type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Batch, Engine } from "../database/engine.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { isStorageError } from "../storage-error.ts";
import type { StoredObject, StoreEvent, WriteResult } from "../store.ts";
import type { History } from "./history.ts";
import { encodeLogEntry, encodeRecord } from "./log-entry.ts";
import { DeletedObject, encodeObject } from "./stored-object.ts";

/** A decided write that waits for its commit. */
interface PendingWrite {
  readonly event: StoreEvent;
  readonly resolve: (result: WriteResult) => void;
  readonly reject: (error: unknown) => void;
}

/** The decided state of a key that is not durable yet. */
export interface PendingState {
  /** Undefined for a delete. */
  readonly stored: StoredObject | undefined;
  readonly revision: number;
  /** Resolves, never rejects, when its commit has ended either way. */
  readonly settled: Promise<void>;
}

/** What {@link CommitQueue} takes. */
export interface CommitQueueOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly history: History;
  /** Makes durable events visible to readers, then to watchers. Called before the writers get their answers. */
  readonly publish: (events: readonly StoreEvent[]) => void;
}

/** How many old events one commit may drop, so that no commit takes long. */
const maxDropped = 2_000;

/**
 * Group commit: writes that arrive while a commit is under way are committed together next. A failed commit also rejects
 * waiting writes to the same keys, because they build on the failed ones.
 */
export class CommitQueue {
  readonly #options: CommitQueueOptions;
  readonly #pending = new Map<string, PendingState>();
  #waiting: PendingWrite[] = [];
  #settled = createDeferred<void>();
  #running: Promise<void> | undefined;
  /** Whether the last commit had several writes, so that the next one is likely to have several too. */
  #isContended = false;
  #durable: number;
  #compacted: number;
  /** The newest revision given to a write. Revisions of failed writes are not reused. */
  #assigned: number;

  constructor(options: CommitQueueOptions) {
    this.#options = options;
    const { revision, compacted } = options.engine.position;
    this.#durable = revision;
    this.#assigned = revision;
    this.#compacted = compacted;
  }

  /** The newest durable revision. */
  get durable(): number {
    return this.#durable;
  }

  /** Events up to this revision were dropped. */
  get compacted(): number {
    return this.#compacted;
  }

  /** The decided state of a key, if it is not durable yet. */
  pending(key: string): PendingState | undefined {
    return this.#pending.get(key);
  }

  /** Commits a put or, if `object` is undefined, the delete of `current`. */
  add(key: string, object: KubernetesObject | undefined, current: StoredObject | undefined): Promise<WriteResult> {
    this.#assigned += 1;
    const revision = this.#assigned;
    const event = eventFor(key, revision, object, current);
    this.#pending.set(key, { stored: object && event.object, revision, settled: this.#settled.promise });
    const answer = createDeferred<WriteResult>();
    this.#waiting.push({ event, resolve: answer.resolve, reject: answer.reject });
    this.#running ??= this.#run();
    return answer.promise;
  }

  /** Resolves when nothing waits. */
  async drain(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      // Of requests that arrive together, each is read on its own: their writes share the commit. A single writer need not wait for others.
      await (this.#isContended ? endOfTurn() : undefined);
      const writes = this.#waiting;
      const settled = this.#settled;
      this.#waiting = [];
      this.#settled = createDeferred<void>();
      this.#isContended = writes.length > 1;
      try {
        await this.#commitOrFree(writes);
      } catch (cause) {
        this.#reject(writes, cause);
      }
      settled.resolve();
    }
    this.#running = undefined;
  }

  /** Commits `writes`. If there is no space for all of them, commits those that free some and rejects the others. */
  async #commitOrFree(writes: readonly PendingWrite[]): Promise<void> {
    try {
      await this.#commit(writes);
    } catch (cause) {
      const freeing = isStorageError(cause, "StorageFull") ? writes.filter((write) => isIndependent(write, writes)) : [];
      if (freeing.length === 0 || freeing.length === writes.length) throw cause;
      const others = writes.filter((write) => !freeing.includes(write));
      await this.#commit(freeing);
      this.#reject(others, cause);
    }
  }

  async #commit(writes: readonly PendingWrite[]): Promise<void> {
    const { engine, clock, history, publish } = this.#options;
    const timeMs = clock.now();
    const last = new Map<string, StoreEvent>(writes.map(({ event }) => [event.object.key, event]));
    const batch = this.#batchOf(writes, last, timeMs);
    await engine.commit(batch);
    this.#durable = batch.position.revision;
    this.#compacted = batch.position.compacted;
    history.mark(
      this.#durable,
      timeMs,
      batch.log.reduce((sum, { value }) => sum + value.length, 0),
    );
    for (const [key, event] of last) {
      if (this.#pending.get(key)?.revision === event.revision) this.#pending.delete(key);
    }
    publish(writes.map(({ event }) => event));
    for (const { event, resolve } of writes) resolve({ ok: true, stored: event.object });
  }

  /** One batch for all writes; `last` holds the last event of each key. */
  #batchOf(writes: readonly PendingWrite[], last: ReadonlyMap<string, StoreEvent>, timeMs: number): Batch {
    const compacted = this.#compacted;
    const upTo = Math.min(this.#options.history.compactTo(this.#durable), compacted + maxDropped + 2 * writes.length);
    return {
      objects: [...last].map(([key, event]) => ({
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
      position: { revision: writes.at(-1)?.event.revision ?? this.#durable, compacted: Math.max(compacted, upTo) },
      dropAfter: compacted,
      isFreeing: writes.every(isFreeing),
    };
  }

  /** Rejects writes, and waiting ones to the same keys, which build on them. */
  #reject(writes: readonly PendingWrite[], cause: unknown): void {
    const keys = new Set(writes.map(({ event }) => event.object.key));
    const dependent = this.#waiting.filter(({ event }) => keys.has(event.object.key));
    this.#waiting = this.#waiting.filter(({ event }) => !keys.has(event.object.key));
    for (const key of keys) this.#pending.delete(key);
    const why = cause instanceof Error ? cause.message : String(cause);
    const reason = isStorageError(cause, "StorageFull") ? "InsufficientStorage" : "InternalError";
    for (const { reject } of [...writes, ...dependent]) {
      const error = statusError(reason, `the storage could not write: ${why}`);
      error.cause = cause;
      reject(error);
    }
  }
}

/** Whether a write deletes an object, or changes one that is being deleted: its finalizers, its grace period. */
function isFreeing({ event }: PendingWrite): boolean {
  return event.type === "delete" || event.object.object.metadata.deletionTimestamp !== undefined;
}

/** Whether a write frees space and no other one in `writes` is to the same key. */
function isIndependent(write: PendingWrite, writes: readonly PendingWrite[]): boolean {
  const { key } = write.event.object;
  return isFreeing(write) && writes.every((other) => other === write || other.event.object.key !== key);
}

function eventFor(
  key: string,
  revision: number,
  object: KubernetesObject | undefined,
  previous: StoredObject | undefined,
): StoreEvent {
  if (object !== undefined) return { type: "put", revision, object: encodeObject(key, revision, object), previous };
  if (previous === undefined) throw new TypeError(`nothing to delete at ${key}`);
  return { type: "delete", revision, object: new DeletedObject(previous, revision), previous };
}
