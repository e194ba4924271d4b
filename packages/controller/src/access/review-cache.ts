import type { Clock } from "@keelson/api-machinery/time";

/** A result and how long it may be reused; with 0, it is not cached. */
export interface Reviewed<T> {
  readonly value: T;
  readonly forMs: number;
}

/** Options of {@link ReviewCache}. */
export interface ReviewCacheOptions {
  readonly clock: Clock;
  readonly maxEntries: number;
  /** Reviews that may run at the same time. */
  readonly maxPending: number;
}

/** Too many reviews run at the same time. */
export class ReviewLimitError extends Error {
  override readonly name = "ReviewLimitError";
  readonly code = "TooManyReviews";
}

/**
 * Results of reviews by the API server, for a short time. Concurrent requests with the same key share one review. Errors are not cached. The
 * oldest result is dropped first.
 */
export class ReviewCache<T> {
  readonly #options: ReviewCacheOptions;
  readonly #entries = new Map<string, { readonly value: T; readonly until: number }>();
  readonly #pending = new Map<string, Promise<T>>();

  constructor(options: ReviewCacheOptions) {
    this.#options = options;
  }

  /** **Errors**: {@link ReviewLimitError}, and those of `review`. */
  async get(key: string, review: () => Promise<Reviewed<T>>): Promise<T> {
    const { clock, maxPending } = this.#options;
    const known = this.#entries.get(key);
    if (known !== undefined && clock.monotonic() < known.until) return known.value;
    const running = this.#pending.get(key);
    if (running !== undefined) return running;
    if (this.#pending.size >= maxPending)
      throw new ReviewLimitError(`${maxPending} reviews of credentials are in progress; retry`);
    const next = this.#review(key, review).finally(() => this.#pending.delete(key));
    this.#pending.set(key, next);
    return next;
  }

  async #review(key: string, review: () => Promise<Reviewed<T>>): Promise<T> {
    const { clock, maxEntries } = this.#options;
    // Counted from the request, because the answer may be as old as that.
    const requested = clock.monotonic();
    const { value, forMs } = await review();
    this.#entries.delete(key);
    if (forMs <= 0) return value;
    const oldest = this.#entries.keys().next();
    if (this.#entries.size >= maxEntries && !oldest.done) this.#entries.delete(oldest.value);
    this.#entries.set(key, { value, until: requested + forMs });
    return value;
  }
}
