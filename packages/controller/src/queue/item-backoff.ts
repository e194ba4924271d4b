import type { Clock } from "@keelson/api-machinery/time";
import { TokenBucket } from "./token-bucket.ts";

/** Backoff of failed items. */
export interface BackoffOptions {
  /** First delay of an item. It doubles with every failure. Default 5 ms. */
  readonly baseDelayMs?: number;
  /** Default 1000 s. */
  readonly maxDelayMs?: number;
  /** Limits the retries of all items. Default 10 per second with a burst of 100; `undefined` for no limit. */
  readonly retryRate?: { readonly perSecond: number; readonly burst: number } | undefined;
  /** Delays are extended by up to this share. Default 0. */
  readonly jitter?: number;
}

/** Options of {@link ItemBackoff}. */
export interface ItemBackoffOptions extends BackoffOptions {
  readonly random?: () => number;
}

const defaultBaseDelayMs = 5;
const defaultMaxDelayMs = 1_000_000;

interface Failures {
  count: number;
  /** When the next attempt is due. */
  dueAt: number;
}

/** Computes when failed items are retried: by their own failures, and by a common rate limit. */
export class ItemBackoff {
  readonly #options: ItemBackoffOptions;
  readonly #bucket: TokenBucket | undefined;
  readonly #failures = new Map<string, Failures>();

  /** **Errors**: `RangeError` that names the option. */
  constructor(clock: Clock, options: ItemBackoffOptions) {
    this.#options = options;
    const { baseDelayMs = defaultBaseDelayMs, maxDelayMs = defaultMaxDelayMs, jitter = 0, retryRate: requested } = options;
    if (!(baseDelayMs > 0)) throw new RangeError(`baseDelayMs must be greater than 0, got ${baseDelayMs}`);
    if (!(maxDelayMs >= baseDelayMs))
      throw new RangeError(`maxDelayMs must be at least baseDelayMs (${baseDelayMs}), got ${maxDelayMs}`);
    if (!(jitter >= 0 && jitter < Infinity)) throw new RangeError(`jitter must be at least 0, got ${jitter}`);
    if (requested !== undefined && !(requested.perSecond > 0 && requested.burst >= 1)) {
      throw new RangeError("retryRate: perSecond must be greater than 0 and burst at least 1");
    }
    const rate = Object.hasOwn(options, "retryRate") ? options.retryRate : { perSecond: 10, burst: 100 };
    if (rate !== undefined) this.#bucket = new TokenBucket(clock, rate.perSecond, rate.burst);
  }

  /** Failures of an item since it was last forgotten. */
  countOf(id: string): number {
    return this.#failures.get(id)?.count ?? 0;
  }

  /** When the next attempt of a failed item is due; `undefined` for an item without failures. */
  dueAtOf(id: string): number | undefined {
    return this.#failures.get(id)?.dueAt;
  }

  /**
   * Counts a failure, at `now`, of an attempt that started at `startedAt`. Returns when the next attempt is due.
   *
   * The failure of an attempt that was triggered before its backoff had passed is not counted: otherwise a busy watch would
   * drive the delay of a failing item to the maximum (kubernetes#132805).
   */
  failed(id: string, now: number, startedAt: number): number {
    const known = this.#failures.get(id);
    const wasEarly = known !== undefined && startedAt < known.dueAt;
    const count = (known?.count ?? 0) + (wasEarly ? 0 : 1);
    const {
      baseDelayMs = defaultBaseDelayMs,
      maxDelayMs = defaultMaxDelayMs,
      jitter = 0,
      random = Math.random,
    } = this.#options;
    const own = Math.min(baseDelayMs * 2 ** (count - 1), maxDelayMs) * (1 + jitter * random());
    const dueAt = now + Math.max(own, this.#bucket?.reserve() ?? 0);
    this.#failures.set(id, { count, dueAt });
    return dueAt;
  }

  /** Resets an item's failures. */
  forget(id: string): void {
    this.#failures.delete(id);
  }

  /** Resets the failures of all items. */
  clear(): void {
    this.#failures.clear();
  }
}
