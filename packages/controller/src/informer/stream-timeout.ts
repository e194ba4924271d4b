import type { Clock, Timer } from "@keelson/api-machinery/time";

/** Calls `onTimeout` once if {@link StreamTimeout.received} has not been called for `timeoutMs`. */
export class StreamTimeout {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onTimeout: () => void;
  #receivedAt: number;
  #timer: Timer;
  #hasFired = false;

  constructor(clock: Clock, timeoutMs: number, onTimeout: () => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onTimeout = onTimeout;
    this.#receivedAt = clock.monotonic();
    this.#timer = this.#arm(timeoutMs);
  }

  /** Whether `onTimeout` was called. */
  get hasFired(): boolean {
    return this.#hasFired;
  }

  received(): void {
    this.#receivedAt = this.#clock.monotonic();
  }

  cancel(): void {
    this.#timer.cancel();
  }

  #arm(delayMs: number): Timer {
    return this.#clock.setTimer(delayMs, () => {
      const remainingMs = this.#receivedAt + this.#timeoutMs - this.#clock.monotonic();
      if (remainingMs > 0) {
        this.#timer = this.#arm(remainingMs);
        return;
      }
      this.#hasFired = true;
      this.#onTimeout();
    });
  }
}
