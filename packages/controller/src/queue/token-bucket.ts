import type { Clock } from "@keelson/api-machinery/time";

/** A token bucket. Reserving from an empty bucket borrows a token and returns how long to wait for it. */
export class TokenBucket {
  readonly #clock: Clock;
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  constructor(clock: Clock, tokensPerSecond: number, burst: number) {
    this.#clock = clock;
    this.#perMs = tokensPerSecond / 1000;
    this.#burst = burst;
    this.#tokens = burst;
    this.#at = clock.monotonic();
  }

  /** Takes one token. Returns after how many milliseconds it may be used. */
  reserve(): number {
    this.#fill();
    this.#tokens--;
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#perMs;
  }

  /** Takes one token if one is available now. */
  tryTake(): boolean {
    this.#fill();
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  #fill(): void {
    const now = this.#clock.monotonic();
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs);
    this.#at = now;
  }
}
