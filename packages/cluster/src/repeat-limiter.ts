import type { Clock } from "@keelson/api-machinery/time";

const windowMs = 1_000;
/** Far more than a key needs that settles, even if each of its objects causes an event. */
const maxRunsPerWindow = 100;
const delayMs = 100;
const maxKeys = 10_000;

/** Slows down keys that run more than 100 times a second. A key that settles is never delayed. */
export class RepeatLimiter {
  readonly #clock: Pick<Clock, "monotonic">;
  #runs = new Map<string, number>();
  #windowStart: number;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
    this.#windowStart = clock.monotonic();
  }

  /** Counts a run of a key. */
  count(key: string): void {
    this.#roll();
    this.#runs.set(key, (this.#runs.get(key) ?? 0) + 1);
  }

  /** The delay in milliseconds before the key should run again; 0 unless it repeats. */
  delayOf(key: string): number {
    this.#roll();
    return (this.#runs.get(key) ?? 0) < maxRunsPerWindow ? 0 : delayMs;
  }

  #roll(): void {
    const now = this.#clock.monotonic();
    if (now - this.#windowStart < windowMs && this.#runs.size < maxKeys) return;
    this.#windowStart = now;
    this.#runs = new Map();
  }
}
