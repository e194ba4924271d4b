import type { Clock } from "@keelson/api-machinery/time";
import { type Logger, WorkQueue } from "@keelson/controller";

/** Options of {@link KeyedWorkers}. */
export interface KeyedWorkersOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly concurrency: number;
  /** Processes a key. An error is logged and the key is retried with backoff. */
  readonly work: (key: string, signal: AbortSignal) => Promise<void>;
}

/** Processes keys from a {@link WorkQueue}, each key in one worker at a time. Starts in the constructor and runs until `stop`. */
export class KeyedWorkers {
  readonly #options: KeyedWorkersOptions;
  readonly #queue: WorkQueue<string>;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[];

  constructor(options: KeyedWorkersOptions) {
    this.#options = options;
    this.#queue = new WorkQueue({ clock: options.clock, random: options.random, idOf: (key) => key, jitter: 0.1 });
    this.#running = Array.from({ length: options.concurrency }, () => this.#run());
  }

  add(key: string): void {
    this.#queue.add(key);
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
    }
  }
}
