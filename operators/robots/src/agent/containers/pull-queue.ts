import { createDeferred } from "@keelson/api-machinery/deferred";
import type { Clock } from "@keelson/api-machinery/time";
import { ImageError } from "@keelson/execution";
import { settledOrAborted } from "../files/settled-or-aborted.ts";

/** Options of a {@link PullQueue}. */
export interface PullQueueOptions {
  readonly clock: Clock;
  /** Maximum time of a pull, without its wait. */
  readonly timeoutMs: number;
}

/** Pulls one image after the other, in the order of the calls: images share layers. */
export class PullQueue {
  readonly #options: PullQueueOptions;
  /** Resolves when all pulls so far have ended. */
  #last: Promise<void> = Promise.resolve();

  constructor(options: PullQueueOptions) {
    this.#options = options;
  }

  /**
   * Calls `pull` after the pulls before it. Its signal is aborted with `signal`, and when its time is over.
   *
   * **Errors**: those of `pull`; an `ImageError` with the code `Unavailable` when its time is over; `signal`'s reason, even while it waits.
   */
  async run<T>(image: string, signal: AbortSignal, pull: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const before = this.#last;
    const turn = createDeferred<void>();
    this.#last = before.then(() => turn.promise);
    try {
      await settledOrAborted(before, signal);
      return await this.#withinTimeout(image, signal, pull);
    } finally {
      turn.resolve();
    }
  }

  async #withinTimeout<T>(image: string, signal: AbortSignal, pull: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, timeoutMs } = this.#options;
    const limit = new AbortController();
    const message = `image ${image}: not pulled within the time that the robot's policy allows`;
    const timer = clock.setTimer(timeoutMs, () => limit.abort(new ImageError("Unavailable", message)));
    try {
      return await pull(AbortSignal.any([signal, limit.signal]));
    } finally {
      timer.cancel();
    }
  }
}
