import type { Clock, Timer } from "@keelson/api-machinery/time";
import { BinaryHeap } from "./binary-heap.ts";
import { ItemBackoff, type ItemBackoffOptions } from "./item-backoff.ts";
import { QueueEntry } from "./queue-entry.ts";
import { ReadyItems } from "./ready-items.ts";

/** Priority of objects of initial lists and resyncs. Changes go first. */
export const lowPriority = -100;

/** How an item is added. */
export interface AddOptions {
  /** Higher priorities are handed out first. Default 0. */
  readonly priority?: number;
  /** Delay. */
  readonly afterMs?: number;
  /** Delays the item by its backoff, which grows with every failure. The shorter of this and `afterMs` applies. */
  readonly rateLimited?: boolean;
}

/** An item handed out by the queue. */
export interface QueueItem<T> {
  readonly value: T;
  readonly priority: number;
}

/** Metrics of a queue. */
export interface QueueMetrics {
  added(): void;
  /** The number of ready items of a priority changed. */
  depthChanged(priority: number, by: number): void;
  /** An item was handed out after this time. */
  waited(ms: number): void;
  /** An item was done after this time. */
  worked(ms: number): void;
  retried(): void;
}

/** How triggers treat an item in backoff. */
export interface TriggerOptions {
  /** Adding an item during its backoff: `run` it now (default), or `hold` it until the backoff has passed. */
  readonly triggerDuringBackoff?: "run" | "hold";
}

/** Options of {@link WorkQueue}. */
export interface WorkQueueOptions<T> extends ItemBackoffOptions, TriggerOptions {
  readonly clock: Clock;
  /** Values with the same id are the same item. */
  readonly idOf: (value: T) => string;
  /** Ready items of the same priority are handed out in turns of these groups. Default: all items are one group. */
  readonly groupOf?: (value: T) => string;
  readonly metrics?: QueueMetrics;
}

/**
 * A priority queue with the semantics of controller-runtime's. It holds each item once, never hands it out to two
 * workers at the same time, and orders items by priority, then by when they became ready. With `groupOf`, groups take turns.
 *
 * ```text
 *   add(after) -> waiting --due--> ready --get--> handed out --done--> removed
 *   add ----------------------------^  \ added again while handed out: locked until done, then ready
 * ```
 *
 * Adding a queued item again keeps the higher priority and the earlier time.
 */
export class WorkQueue<T> {
  readonly #options: WorkQueueOptions<T>;
  readonly #clock: Clock;
  readonly #backoff: ItemBackoff;
  readonly #entries = new Map<string, QueueEntry<T>>();
  readonly #ready = new ReadyItems<QueueEntry<T>>();
  readonly #waiting = new BinaryHeap<QueueEntry<T>>((a, b) => (a.dueAt === b.dueAt ? a.order < b.order : a.dueAt < b.dueAt));
  readonly #inProgress: QueueEntry<T>[] = [];
  readonly #getters: ((item: QueueItem<T> | undefined) => void)[] = [];
  #lockedReady = 0;
  #order = 0;
  #timer: Timer | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #isShutDown = false;

  constructor(options: WorkQueueOptions<T>) {
    this.#options = options;
    this.#clock = options.clock;
    this.#backoff = new ItemBackoff(options.clock, options);
  }

  /** Number of ready items, including those that are still being worked on. */
  get length(): number {
    return this.#ready.size + this.#lockedReady;
  }

  /** Number of items in progress. */
  get inProgress(): number {
    return this.#inProgress.length;
  }

  /** How long each item has been in progress, in milliseconds. */
  inProgressMs(): number[] {
    const now = this.#clock.monotonic();
    return this.#inProgress.map(({ startedAt }) => now - startedAt);
  }

  /** Failures of an item since it was last forgotten. */
  failuresOf(value: T): number {
    return this.#backoff.countOf(this.#options.idOf(value));
  }

  /** Whether an item is waiting, ready or in progress. */
  has(value: T): boolean {
    return this.#entries.has(this.#options.idOf(value));
  }

  /** Adds an item. Returns when it would be ready because of this call alone, by the monotonic clock. */
  add(value: T, options: AddOptions = {}): number {
    if (this.#isShutDown) return Number.POSITIVE_INFINITY;
    const id = this.#options.idOf(value);
    const now = this.#clock.monotonic();
    this.#options.metrics?.added();
    if (options.rateLimited) this.#options.metrics?.retried();
    let entry = this.#entries.get(id);
    const dueAt = this.#dueAt(id, options, now, entry);
    const priority = options.priority ?? 0;
    if (entry === undefined) {
      entry = new QueueEntry(id, value, this.#options.groupOf?.(value) ?? "");
      this.#entries.set(id, entry);
    }
    if (entry.state === "idle") this.#enqueue(entry, value, priority, dueAt, now);
    else this.#merge(entry, priority, dueAt, now);
    this.#serve();
    return dueAt;
  }

  /** Waits for the next ready item. Resolves to `undefined` once the queue is shut down. */
  get(): Promise<QueueItem<T> | undefined> {
    const item = this.take();
    if (item !== undefined || this.#isShutDown) return Promise.resolve(item);
    return new Promise((resolve) => this.#getters.push(resolve));
  }

  /** The next ready item, if there is one. */
  take(): QueueItem<T> | undefined {
    if (this.#isShutDown) return undefined;
    const entry = this.#ready.shift();
    if (entry === undefined) return undefined;
    const now = this.#clock.monotonic();
    entry.state = "idle";
    entry.startedAt = now;
    entry.progressIndex = this.#inProgress.push(entry) - 1;
    this.#options.metrics?.depthChanged(entry.priority, -1);
    this.#options.metrics?.waited(now - entry.readyAt);
    return { value: entry.value, priority: entry.priority };
  }

  /** Marks an item as done. If it was added again in the meantime, it becomes ready. */
  done(value: T): void {
    const id = this.#options.idOf(value);
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.progressIndex < 0) return;
    this.#endProgress(entry);
    this.#options.metrics?.worked(this.#clock.monotonic() - entry.startedAt);
    if (entry.state === "idle") this.#entries.delete(id);
    if (entry.state !== "locked") return;
    this.#lockedReady--;
    entry.state = "ready";
    this.#ready.push(entry);
    this.#serve();
  }

  /** Resets an item's failures, and with them its backoff. */
  forget(value: T): void {
    this.#backoff.forget(this.#options.idOf(value));
  }

  /** Drops all items, resolves every waiting `get` with `undefined`, and ignores further items. */
  shutDown(): void {
    if (this.#isShutDown) return;
    this.#isShutDown = true;
    this.#timer?.cancel();
    for (const entry of this.#entries.values()) {
      if (entry.state === "ready" || entry.state === "locked") this.#options.metrics?.depthChanged(entry.priority, -1);
      // Items in progress stay until they are done.
      if (entry.progressIndex < 0) this.#entries.delete(entry.id);
      else entry.state = "idle";
    }
    this.#backoff.clear();
    this.#ready.clear();
    this.#lockedReady = 0;
    for (const resolve of this.#getters.splice(0)) resolve(undefined);
  }

  #dueAt(id: string, options: AddOptions, now: number, entry: QueueEntry<T> | undefined): number {
    const after = options.afterMs !== undefined && options.afterMs > 0 ? now + options.afterMs : undefined;
    if (options.rateLimited) {
      const backoff = this.#backoff.failed(id, now, entry !== undefined && entry.progressIndex >= 0 ? entry.startedAt : now);
      return after === undefined ? backoff : Math.min(backoff, after);
    }
    if (this.#options.triggerDuringBackoff === "hold") {
      const held = this.#backoff.dueAtOf(id) ?? now;
      if (held > now) return Math.max(held, after ?? now);
    }
    return after ?? now;
  }

  #enqueue(entry: QueueEntry<T>, value: T, priority: number, dueAt: number, now: number): void {
    entry.value = value;
    entry.priority = priority;
    entry.dueAt = dueAt;
    if (dueAt <= now) {
      this.#makeReady(entry, now);
      return;
    }
    entry.order = this.#order++;
    entry.state = "waiting";
    this.#delay(entry);
  }

  #endProgress(entry: QueueEntry<T>): void {
    const last = this.#inProgress.pop();
    if (last !== undefined && last !== entry) {
      this.#inProgress[entry.progressIndex] = last;
      last.progressIndex = entry.progressIndex;
    }
    entry.progressIndex = -1;
  }

  #merge(entry: QueueEntry<T>, priority: number, dueAt: number, now: number): void {
    const raised = priority > entry.priority;
    if (entry.state === "waiting") {
      if (raised) entry.priority = priority;
      if (dueAt <= now) {
        this.#waiting.remove(entry);
        this.#makeReady(entry, now);
      } else if (dueAt < entry.dueAt) {
        this.#waiting.remove(entry);
        entry.dueAt = dueAt;
        this.#delay(entry);
      }
      return;
    }
    if (entry.state === "locked" && dueAt > now && this.#options.triggerDuringBackoff === "hold") {
      this.#lockedReady--;
      this.#options.metrics?.depthChanged(entry.priority, -1);
      entry.priority = Math.max(priority, entry.priority);
      entry.state = "waiting";
      entry.dueAt = dueAt;
      this.#delay(entry);
      return;
    }
    if (!raised) return;
    this.#options.metrics?.depthChanged(entry.priority, -1);
    this.#options.metrics?.depthChanged(priority, 1);
    if (entry.state === "ready") this.#ready.remove(entry);
    entry.priority = priority;
    // Append it to the new priority, behind items that were there before.
    entry.order = this.#order++;
    if (entry.state === "ready") this.#ready.push(entry);
  }

  #makeReady(entry: QueueEntry<T>, now: number): void {
    entry.order = this.#order++;
    entry.readyAt = now;
    this.#options.metrics?.depthChanged(entry.priority, 1);
    if (entry.progressIndex >= 0) {
      entry.state = "locked";
      this.#lockedReady++;
    } else {
      entry.state = "ready";
      this.#ready.push(entry);
    }
  }

  #delay(entry: QueueEntry<T>): void {
    this.#waiting.push(entry);
    if (entry.dueAt < this.#timerAt) this.#arm();
  }

  #arm(): void {
    this.#timer?.cancel();
    const next = this.#waiting.peek();
    this.#timerAt = next?.dueAt ?? Number.POSITIVE_INFINITY;
    this.#timer = next && this.#clock.setTimer(Math.max(next.dueAt - this.#clock.monotonic(), 0), () => this.#wake());
  }

  #wake(): void {
    const now = this.#clock.monotonic();
    for (let entry = this.#waiting.peek(); entry !== undefined && entry.dueAt <= now; entry = this.#waiting.peek()) {
      this.#waiting.remove(entry);
      this.#makeReady(entry, now);
    }
    this.#arm();
    this.#serve();
  }

  #serve(): void {
    while (this.#getters.length > 0 && this.#ready.size > 0) {
      const item = this.take();
      if (item === undefined) return;
      this.#getters.shift()?.(item);
    }
  }
}
