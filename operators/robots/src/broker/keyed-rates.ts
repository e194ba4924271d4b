import type { Clock } from "@keelson/api-machinery/time";

/** A limit of {@link KeyedRates}. */
export interface RateLimit {
  /** Maximum number in a row. */
  readonly burst: number;
  /** Maximum number per second, on average. */
  readonly perSecond: number;
}

/** Publishes of a robot. The burst lets an agent that returns repeat several reports of each of 1,000 tasks. */
export const publishLimit: RateLimit = { burst: 5_000, perSecond: 100 };

/** MQTT packets of a robot of any type, acknowledgements included. */
export const packetLimit: RateLimit = { burst: 10_000, perSecond: 1_000 };

/** What a topic of a SUBSCRIBE counts as, in packets. */
export const packetsPerTopic = 10;

interface Bucket {
  left: number;
  atMs: number;
}

/**
 * Limits how often something happens for each key, such as the publishes of a robot (a token bucket per key), so that a robot with a valid
 * key cannot keep the broker, the bridge and the API server busy. A limit counts across connections.
 */
export class KeyedRates {
  readonly #clock: Clock;
  readonly #limit: RateLimit;
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock, limit: RateLimit) {
    this.#clock = clock;
    this.#limit = limit;
  }

  /** Counts `count` together. Returns false if `key` has exceeded its limit. */
  accept(key: string, count = 1): boolean {
    const { burst, perSecond } = this.#limit;
    const now = this.#clock.monotonic();
    const bucket = this.#buckets.get(key) ?? { left: burst, atMs: now };
    bucket.left = Math.min(bucket.left + ((now - bucket.atMs) * perSecond) / 1000, burst);
    bucket.atMs = now;
    // The most recently active last.
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    this.#forgetIdle(now);
    if (bucket.left < count) return false;
    bucket.left -= count;
    return true;
  }

  /** Forgets keys whose buckets are full again, a few at a time. */
  #forgetIdle(now: number): void {
    const fullAfterMs = (this.#limit.burst / this.#limit.perSecond) * 1000;
    let checked = 0;
    for (const [key, { atMs }] of this.#buckets) {
      if (checked++ === 2 || now - atMs < fullAfterMs) return;
      this.#buckets.delete(key);
    }
  }
}
