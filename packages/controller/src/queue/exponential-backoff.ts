import type { Clock } from "@keelson/api-machinery/time";

/** How {@link ExponentialBackoff} grows. */
export interface BackoffOptions {
  readonly clock: Clock;
  /** A number in [0, 1). Default: `Math.random`. */
  readonly random?: () => number;
  readonly baseMs: number;
  readonly maxMs: number;
  /** Without a failure for this long, the next one counts as the first. */
  readonly resetAfterMs: number;
  /** A delay is lengthened by up to this share of itself. */
  readonly jitter: number;
}

/** Delays that double from failure to failure, with jitter, and start anew after a quiet time. */
export class ExponentialBackoff {
  readonly #options: BackoffOptions;
  #failures = 0;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** The delay after one more failure. */
  next(): number {
    const { clock, baseMs, maxMs, resetAfterMs, jitter, random = Math.random } = this.#options;
    const now = clock.monotonic();
    if (now - this.#lastAt > resetAfterMs) this.#failures = 0;
    const delay = Math.min(baseMs * 2 ** this.#failures, maxMs);
    const jittered = delay * (1 + random() * jitter);
    this.#failures++;
    // Quiet is counted from the end of the wait: the wait itself is no sign of health.
    this.#lastAt = now + jittered;
    return jittered;
  }
}
