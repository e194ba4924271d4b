import type { Clock, Timer } from "@keelson/api-machinery/time";

/** A deadline that can be cancelled. */
export interface Deadline {
  cancel(): void;
}

/**
 * All deadlines of a driver behind one timer, set to the nearest. Timeouts, kill grace periods and log checks all wait here, so an idle
 * driver has no timer.
 *
 * Arming and firing scan the whole set: a driver has only a few deadlines per program.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #pending = new Map<Deadline, { readonly due: number; readonly callback: () => void }>();
  #timer: Timer | undefined;
  #armedFor = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `callback` once, `delayMs` from now by the monotonic clock. */
  after(delayMs: number, callback: () => void): Deadline {
    const deadline: Deadline = {
      cancel: () => {
        if (this.#pending.delete(deadline)) this.#arm();
      },
    };
    this.#pending.set(deadline, { due: this.#clock.monotonic() + Math.max(delayMs, 0), callback });
    this.#arm();
    return deadline;
  }

  /** Cancels every deadline. */
  clear(): void {
    this.#pending.clear();
    this.#arm();
  }

  /** The number of pending deadlines. */
  get size(): number {
    return this.#pending.size;
  }

  #arm(): void {
    let nearest = Number.POSITIVE_INFINITY;
    for (const { due } of this.#pending.values()) nearest = Math.min(nearest, due);
    if (nearest === this.#armedFor) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#armedFor = nearest;
    if (nearest === Number.POSITIVE_INFINITY) return;
    this.#timer = this.#clock.setTimer(Math.max(nearest - this.#clock.monotonic(), 0), () => this.#fire());
  }

  #fire(): void {
    this.#timer = undefined;
    this.#armedFor = Number.POSITIVE_INFINITY;
    const now = this.#clock.monotonic();
    const due = [...this.#pending].filter(([, entry]) => entry.due <= now).sort(([, a], [, b]) => a.due - b.due);
    for (const [deadline, entry] of due) {
      // An earlier callback may have cancelled it.
      if (this.#pending.delete(deadline)) entry.callback();
    }
    this.#arm();
  }
}
