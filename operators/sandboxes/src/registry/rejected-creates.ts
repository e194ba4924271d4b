import type { Clock } from "@keelson/api-machinery/time";

/** A pool of a namespace. */
interface PoolKey {
  readonly namespace: string;
  readonly name: string;
}

/** How long a rejected create counts as demand: longer than the retry hint that its caller got. */
const demandMs = 30_000;

/** Creates that were rejected because their pool was full. Nothing waits for a slot then, but the pool must grow for the next ones. */
export class RejectedCreates {
  readonly #clock: Pick<Clock, "now">;
  readonly #onReject: (pool: PoolKey) => void;
  /** By pool, the time of the last one. */
  readonly #last = new Map<string, number>();

  /** `onReject` is called after each one. */
  constructor(clock: Pick<Clock, "now">, onReject: (pool: PoolKey) => void) {
    this.#clock = clock;
    this.#onReject = onReject;
  }

  add(pool: PoolKey): void {
    const now = this.#clock.now();
    for (const [key, time] of this.#last) if (now - time >= demandMs) this.#last.delete(key);
    this.#last.set(keyOf(pool), now);
    this.#onReject(pool);
  }

  /** Whether a create was rejected in the last 30 s. */
  isRecent(pool: PoolKey): boolean {
    return this.#clock.now() - (this.#last.get(keyOf(pool)) ?? Number.NEGATIVE_INFINITY) < demandMs;
  }
}

const keyOf = ({ namespace, name }: PoolKey): string => `${namespace}/${name}`;
