import type { Clock } from "@keelson/api-machinery/time";

/** Options of {@link ExponentialBackoff}. */
export interface ExponentialBackoffOptions {
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). Default: `Math.random`. */
  readonly random?: () => number;
  readonly baseMs: number;
  readonly maxMs: number;
  /** After this time without a failure, the next one counts as the first. */
  readonly resetAfterMs: number;
  /** Delays are extended by up to this share. */
  readonly jitter: number;
}

/** Delays that double with every failure, with jitter, and are reset after a time without failures. */
export class ExponentialBackoff {
  readonly #options: ExponentialBackoffOptions;
  #failures = 0;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(options: ExponentialBackoffOptions) {
    this.#options = options;
  }

  /** The delay after another failure. */
  next(): number {
    const { clock, baseMs, maxMs, resetAfterMs, jitter, random = Math.random } = this.#options;
    const now = clock.monotonic();
    if (now - this.#lastAt > resetAfterMs) this.#failures = 0;
    const delay = Math.min(baseMs * 2 ** this.#failures, maxMs);
    const jittered = delay * (1 + random() * jitter);
    this.#failures++;
    // Counted from the end of the delay: the delay itself does not indicate health.
    this.#lastAt = now + jittered;
    return jittered;
  }
}
