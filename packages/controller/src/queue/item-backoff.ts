import type { Clock } from "@keelson/api-machinery/time";
import { TokenBucket } from "./token-bucket.ts";

/** How long what failed waits. */
export interface BackoffOptions {
  /** First delay of an item's backoff; it doubles with every failure. Default 5 ms. */
  readonly baseDelayMs?: number;
  /** Default 1000 s. */
  readonly maxDelayMs?: number;
  /** All items together: no more retries than this. Default 10 a second, burst 100; `undefined` for no limit. */
  readonly retryRate?: { readonly perSecond: number; readonly burst: number } | undefined;
  /** A backoff is lengthened by up to this share of itself. Default 0. */
  readonly jitter?: number;
}

/** Options of {@link ItemBackoff}. */
export interface ItemBackoffOptions extends BackoffOptions {
  readonly random?: () => number;
}

interface Failures {
  count: number;
  /** When the attempt that the backoff allows is due. */
  dueAt: number;
}

/** How long items that failed wait: each by its own failures, and all together by a rate. */
export class ItemBackoff {
  readonly #options: ItemBackoffOptions;
  readonly #bucket: TokenBucket | undefined;
  readonly #failures = new Map<string, Failures>();

  /** **Errors**: `RangeError` that names the option. */
  constructor(clock: Clock, options: ItemBackoffOptions) {
    this.#options = options;
    const { baseDelayMs = 1, maxDelayMs = baseDelayMs, jitter = 0, retryRate: asked } = options;
    if (!(baseDelayMs > 0)) throw new RangeError(`baseDelayMs has to be more than 0, and is ${baseDelayMs}`);
    if (!(maxDelayMs >= baseDelayMs)) throw new RangeError(`maxDelayMs has to be at least baseDelayMs, and is ${maxDelayMs}`);
    if (!(jitter >= 0 && jitter < Infinity)) throw new RangeError(`jitter has to be 0 or more, and is ${jitter}`);
    if (asked !== undefined && !(asked.perSecond > 0 && asked.burst >= 1)) {
      throw new RangeError("retryRate has to have a perSecond of more than 0 and a burst of 1 or more");
    }
    const rate = Object.hasOwn(options, "retryRate") ? options.retryRate : { perSecond: 10, burst: 100 };
    if (rate !== undefined) this.#bucket = new TokenBucket(clock, rate.perSecond, rate.burst);
  }

  /** How often an item has failed since it was last forgotten. */
  countOf(id: string): number {
    return this.#failures.get(id)?.count ?? 0;
  }

  /** When the next attempt of an item that failed is due; `undefined` for one that did not. */
  dueAtOf(id: string): number | undefined {
    return this.#failures.get(id)?.dueAt;
  }

  /**
   * Counts a failure, at `now`, of an attempt that began at `startedAt`, and answers when the next is due.
   *
   * An attempt that something triggered before its backoff had passed says nothing new about how long to wait, so its
   * failure is not counted: else a busy watch would drive the delay of a failing item to the maximum (kubernetes#132805).
   */
  failed(id: string, now: number, startedAt: number): number {
    const known = this.#failures.get(id);
    const wasEarly = known !== undefined && startedAt < known.dueAt;
    const count = (known?.count ?? 0) + (wasEarly ? 0 : 1);
    const { baseDelayMs = 5, maxDelayMs = 1_000_000, jitter = 0, random = Math.random } = this.#options;
    const own = Math.min(baseDelayMs * 2 ** (count - 1), maxDelayMs) * (1 + jitter * random());
    const dueAt = now + Math.max(own, this.#bucket?.reserve() ?? 0);
    this.#failures.set(id, { count, dueAt });
    return dueAt;
  }

  /** Forgets an item's failures: its next backoff is the shortest again. */
  forget(id: string): void {
    this.#failures.delete(id);
  }

  /** Forgets all. */
  clear(): void {
    this.#failures.clear();
  }
}
