import type { Clock, Timer } from "@keelson/api-machinery/time";
import { BinaryHeap, type HeapElement } from "./binary-heap.ts";
import { ItemBackoff, type ItemBackoffOptions } from "./item-backoff.ts";

/** The priority of what nothing has changed for: first lists and resyncs. News goes before it. */
export const lowPriority = -100;

/** How an item is added. */
export interface AddOptions {
  /** Higher ones are handed out first. Default 0. */
  readonly priority?: number;
  /** Not before this time has passed. */
  readonly afterMs?: number;
  /** Not before the item's backoff has passed, which grows with every failure. With `afterMs` too, the shorter one counts. */
  readonly rateLimited?: boolean;
}

/** An item that is handed out. */
export interface QueueItem<T> {
  readonly value: T;
  readonly priority: number;
}

/** What a queue tells about itself. */
export interface QueueMetrics {
  added(): void;
  /** How many more (or fewer) items of a priority are ready. */
  depthChanged(priority: number, by: number): void;
  /** An item was handed out after this long. */
  waited(ms: number): void;
  /** An item was done after this long. */
  worked(ms: number): void;
  retried(): void;
}

/** What something new does to an item that failed. */
export interface TriggerOptions {
  /** What adding an item does while it waits out a backoff: `run` it now (default) or `hold` it until then. */
  readonly triggerDuringBackoff?: "run" | "hold";
}

/** Options of {@link WorkQueue}. */
export interface WorkQueueOptions<T> extends ItemBackoffOptions, TriggerOptions {
  readonly clock: Clock;
  /** Two values of the same id are one item. */
  readonly idOf: (value: T) => string;
  readonly metrics?: QueueMetrics;
}

interface Entry<T> extends HeapElement {
  readonly value: T;
  readonly id: string;
  priority: number;
  /** Order within a priority: by when the item became ready. */
  order: number;
  place: "waiting" | "ready" | "locked";
  /** When a waiting item becomes ready. */
  dueAt: number;
  readyAt: number;
}

/**
 * Items that wait to be worked on, as controller-runtime's priority queue: an item is in it once, is never handed out to two
 * workers at a time, and comes by priority, then in the order in which items became ready.
 *
 * ```text
 *   add(after) -> waiting --due--> ready --get--> handed out --done--> gone
 *   add ----------------------------^  \ added again while handed out: locked until done, then ready
 * ```
 *
 * Adding an item that is in the queue keeps the higher priority and the earlier time.
 */
export class WorkQueue<T> {
  readonly #options: WorkQueueOptions<T>;
  readonly #clock: Clock;
  readonly #backoff: ItemBackoff;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #ready = new BinaryHeap<Entry<T>>((a, b) =>
    a.priority === b.priority ? a.order < b.order : a.priority > b.priority,
  );
  readonly #waiting = new BinaryHeap<Entry<T>>((a, b) => (a.dueAt === b.dueAt ? a.order < b.order : a.dueAt < b.dueAt));
  /** When each item that is handed out was. */
  readonly #taken = new Map<string, number>();
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

  /** Items that are ready, also those that wait for an earlier turn of theirs to end. */
  get length(): number {
    return this.#ready.size + this.#lockedReady;
  }

  /** Items that are handed out. */
  get inProgress(): number {
    return this.#taken.size;
  }

  /** How long each item that is handed out has been, in milliseconds. */
  inProgressMs(): number[] {
    const now = this.#clock.monotonic();
    return [...this.#taken.values()].map((since) => now - since);
  }

  /** How often an item has failed since it was last forgotten. */
  failuresOf(value: T): number {
    return this.#backoff.countOf(this.#options.idOf(value));
  }

  /** Whether an item waits, is ready or is handed out. */
  has(value: T): boolean {
    const id = this.#options.idOf(value);
    return this.#entries.has(id) || this.#taken.has(id);
  }

  /** Adds an item. Answers when this alone would have it ready, by the monotonic clock. */
  add(value: T, options: AddOptions = {}): number {
    if (this.#isShutDown) return Number.POSITIVE_INFINITY;
    const id = this.#options.idOf(value);
    const now = this.#clock.monotonic();
    this.#options.metrics?.added();
    if (options.rateLimited) this.#options.metrics?.retried();
    const dueAt = this.#dueAt(id, options, now);
    const priority = options.priority ?? 0;
    const entry = this.#entries.get(id);
    if (entry === undefined) this.#insert(id, value, priority, dueAt, now);
    else this.#merge(entry, priority, dueAt, now);
    this.#serve();
    return dueAt;
  }

  /** The next item that is ready, now or when there is one; `undefined` once the queue is shut down. */
  get(): Promise<QueueItem<T> | undefined> {
    const item = this.take();
    if (item !== undefined || this.#isShutDown) return Promise.resolve(item);
    return new Promise((resolve) => this.#getters.push(resolve));
  }

  /** The next item that is ready now. */
  take(): QueueItem<T> | undefined {
    if (this.#isShutDown) return undefined;
    const entry = this.#ready.pop();
    if (entry === undefined) return undefined;
    this.#entries.delete(entry.id);
    const now = this.#clock.monotonic();
    this.#taken.set(entry.id, now);
    this.#options.metrics?.depthChanged(entry.priority, -1);
    this.#options.metrics?.waited(now - entry.readyAt);
    return { value: entry.value, priority: entry.priority };
  }

  /** Says that the work on an item is over. If it was added meanwhile, it is ready again. */
  done(value: T): void {
    const id = this.#options.idOf(value);
    const since = this.#taken.get(id);
    if (since === undefined) return;
    this.#taken.delete(id);
    this.#options.metrics?.worked(this.#clock.monotonic() - since);
    const entry = this.#entries.get(id);
    if (entry?.place !== "locked") return;
    this.#lockedReady--;
    entry.place = "ready";
    this.#ready.push(entry);
    this.#serve();
  }

  /** Forgets an item's failures: its next backoff is the shortest again. */
  forget(value: T): void {
    this.#backoff.forget(this.#options.idOf(value));
  }

  /** Drops everything, answers every waiting `get` with `undefined`, and takes nothing any more. */
  shutDown(): void {
    if (this.#isShutDown) return;
    this.#isShutDown = true;
    this.#timer?.cancel();
    for (const entry of this.#entries.values()) {
      if (entry.place !== "waiting") this.#options.metrics?.depthChanged(entry.priority, -1);
    }
    this.#entries.clear();
    this.#backoff.clear();
    this.#lockedReady = 0;
    for (const resolve of this.#getters.splice(0)) resolve(undefined);
  }

  #dueAt(id: string, options: AddOptions, now: number): number {
    const after = options.afterMs !== undefined && options.afterMs > 0 ? now + options.afterMs : undefined;
    if (options.rateLimited) {
      const backoff = this.#backoff.failed(id, now, this.#taken.get(id) ?? now);
      return after === undefined ? backoff : Math.min(backoff, after);
    }
    if (this.#options.triggerDuringBackoff === "hold") {
      const held = this.#backoff.dueAtOf(id) ?? now;
      if (held > now) return Math.max(held, after ?? now);
    }
    return after ?? now;
  }

  #insert(id: string, value: T, priority: number, dueAt: number, now: number): void {
    const entry: Entry<T> = { value, id, priority, order: this.#order++, place: "waiting", dueAt, readyAt: now, heapIndex: -1 };
    this.#entries.set(id, entry);
    if (dueAt <= now) this.#makeReady(entry, now);
    else this.#wait(entry);
  }

  #merge(entry: Entry<T>, priority: number, dueAt: number, now: number): void {
    const raised = priority > entry.priority;
    if (entry.place === "waiting") {
      if (raised) entry.priority = priority;
      if (dueAt <= now) {
        this.#waiting.remove(entry);
        this.#makeReady(entry, now);
      } else if (dueAt < entry.dueAt) {
        this.#waiting.remove(entry);
        entry.dueAt = dueAt;
        this.#wait(entry);
      }
      return;
    }
    if (entry.place === "locked" && dueAt > now && this.#options.triggerDuringBackoff === "hold") {
      this.#lockedReady--;
      this.#options.metrics?.depthChanged(entry.priority, -1);
      entry.priority = Math.max(priority, entry.priority);
      entry.place = "waiting";
      entry.dueAt = dueAt;
      this.#wait(entry);
      return;
    }
    if (!raised) return;
    this.#options.metrics?.depthChanged(entry.priority, -1);
    this.#options.metrics?.depthChanged(priority, 1);
    entry.priority = priority;
    // To the end of the new priority: what was there first stays first.
    entry.order = this.#order++;
    if (entry.place === "ready") this.#ready.update(entry);
  }

  #makeReady(entry: Entry<T>, now: number): void {
    entry.order = this.#order++;
    entry.readyAt = now;
    this.#options.metrics?.depthChanged(entry.priority, 1);
    if (this.#taken.has(entry.id)) {
      entry.place = "locked";
      this.#lockedReady++;
    } else {
      entry.place = "ready";
      this.#ready.push(entry);
    }
  }

  #wait(entry: Entry<T>): void {
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
