import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { WorkQueue } from "@keelson/controller/queue";
import { RepeatLimiter } from "./repeat-limiter.ts";

/** Options of {@link KeyedWorkers}. */
export interface KeyedWorkersOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly concurrency: number;
  /** Processes a key. An error is logged and the key is retried with backoff. */
  readonly work: (key: string, signal: AbortSignal) => Promise<void>;
}

/**
 * Processes keys from a {@link WorkQueue}, each key in one worker at a time. Starts in the constructor and runs until `stop`.
 *
 * **Guarantees**: the event loop serves I/O between two items, even if work completes without I/O; and a key that is added over and
 * over is slowed down by a {@link RepeatLimiter}.
 */
export class KeyedWorkers {
  readonly #options: KeyedWorkersOptions;
  readonly #queue: WorkQueue<string>;
  readonly #repeats: RepeatLimiter;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[];

  constructor(options: KeyedWorkersOptions) {
    this.#options = options;
    const backoff = { baseDelayMs: 5, maxDelayMs: 60_000, jitter: 0.1 };
    this.#queue = new WorkQueue({ clock: options.clock, random: options.random, idOf: (key) => key, ...backoff });
    this.#repeats = new RepeatLimiter(options.clock);
    this.#running = Array.from({ length: options.concurrency }, () => this.#run());
  }

  add(key: string): void {
    const afterMs = this.#repeats.delayOf(key);
    this.#queue.add(key, afterMs === 0 ? {} : { afterMs });
  }

  /** Drops pending keys and aborts running work. */
  async stop(): Promise<void> {
    this.#queue.shutDown();
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  async #run(): Promise<void> {
    for (let item = await this.#queue.get(); item !== undefined; item = await this.#queue.get()) {
      const key = item.value;
      this.#repeats.count(key);
      try {
        await this.#options.work(key, this.#stop.signal);
        this.#queue.forget(key);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#options.log.warn({ err: error, key }, "work item failed; retrying");
        this.#queue.add(key, { rateLimited: true });
      } finally {
        this.#queue.done(key);
      }
      await nextLoopTurn();
    }
  }
}

/** Resolves after pending I/O was served. Promises alone would starve it. */
function nextLoopTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
