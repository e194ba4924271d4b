import type { Clock, Timer } from "@keelson/api-machinery/time";

interface Scheduled {
  readonly atMs: number;
  readonly order: number;
  readonly work: () => void | Promise<void>;
  isCancelled: boolean;
}

/** A small, fast generator of pseudo-random numbers (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Simulated time: runs work in the order of its time. The same seed gives the same run. */
export class Simulation {
  readonly random: () => number;
  #nowMs = 0;
  #order = 0;
  readonly #queue: Scheduled[] = [];

  constructor(seed: number) {
    this.random = randomFrom(seed);
  }

  /** True time in milliseconds. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** A number from `min` up to `max`. */
  between(min: number, max: number): number {
    return min + this.random() * (max - min);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.random() < probability;
  }

  after(delayMs: number, work: () => void | Promise<void>): Timer {
    const entry: Scheduled = { atMs: this.#nowMs + Math.max(delayMs, 0), order: this.#order++, work, isCancelled: false };
    let index = this.#queue.length;
    while (index > 0 && isBefore(entry, this.#queue[index - 1])) index--;
    this.#queue.splice(index, 0, entry);
    return {
      cancel() {
        entry.isCancelled = true;
      },
    };
  }

  every(delayMs: () => number, work: () => void | Promise<void>): void {
    this.after(delayMs(), async () => {
      await work();
      this.every(delayMs, work);
    });
  }

  /** A clock that is off by `skewMs` and runs `rate` times as fast as true time. */
  clock({ skewMs = 0, rate = 1 }: { readonly skewMs?: number; readonly rate?: number } = {}): Clock {
    return {
      now: () => Date.UTC(2026, 0, 1) + skewMs + this.#nowMs * rate,
      monotonic: () => this.#nowMs * rate,
      setTimer: (delayMs, callback) => this.after(delayMs / rate, callback),
    };
  }

  async runUntil(endMs: number): Promise<void> {
    for (let next = this.#queue[0]; next !== undefined && next.atMs <= endMs; next = this.#queue[0]) {
      this.#queue.shift();
      if (next.isCancelled) continue;
      this.#nowMs = next.atMs;
      await next.work();
      // Lets the promises that it resolved settle.
      for (let turn = 0; turn < 12; turn++) await Promise.resolve();
    }
    this.#nowMs = endMs;
  }
}

function isBefore(a: Scheduled, b: Scheduled | undefined): boolean {
  return b !== undefined && (a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order));
}
