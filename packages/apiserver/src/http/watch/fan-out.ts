import type { Clock } from "@keelson/api-machinery/time";

/** Watchers that send in one turn of the event loop: each takes about 20 µs, most of it for encryption. */
const perTurn = 32;
/** Time between the beginnings of two rounds, if the first one had more watchers than send in one turn. */
const gatherMs = 4;

/**
 * Lets watchers send in rounds, some of them in each turn of the event loop. The writer has its answer by then, and its next request is read
 * between two turns. Events that arrive before a watcher's turn are sent in one write, and rounds of many watchers begin at most every
 * 4 ms, so that fast writers cost each watcher a few large writes instead of many small ones. The first event after a pause is
 * sent immediately.
 */
export class FanOut {
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  /** In the order in which they became due. */
  readonly #due = new Set<() => void>();
  #isScheduled = false;
  /** The last round. */
  #round = { startedAt: Number.NEGATIVE_INFINITY, size: 0 };

  constructor(clock: Pick<Clock, "monotonic" | "setTimer">) {
    this.#clock = clock;
  }

  /** Calls `send` in the next round. It must not throw. */
  add(send: () => void): void {
    this.#due.add(send);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const { startedAt, size } = this.#round;
    const waitMs = size > perTurn ? startedAt + gatherMs - this.#clock.monotonic() : 0;
    if (waitMs > 0) this.#clock.setTimer(waitMs, this.#begin);
    else setImmediate(this.#begin);
  }

  /** Does not call `send` unless it is added again. */
  delete(send: () => void): void {
    this.#due.delete(send);
  }

  readonly #begin = (): void => {
    this.#round = { startedAt: this.#clock.monotonic(), size: 0 };
    this.#run();
  };

  readonly #run = (): void => {
    let left = perTurn;
    for (const send of this.#due) {
      this.#due.delete(send);
      send();
      this.#round.size += 1;
      left -= 1;
      if (left === 0) break;
    }
    this.#isScheduled = this.#due.size > 0;
    if (this.#isScheduled) setImmediate(this.#run);
  };
}
