/** A timer that can be cancelled. */
export interface Timer {
  cancel(): void;
}

/**
 * A source of time, passed in so that a test can drive queues, informers, leases and the server with one clock. Apart from
 * the system clock, nothing in Keelson calls `Date.now`, `performance.now` or `setTimeout`.
 */
export interface Clock {
  /** Milliseconds since the epoch. May jump: use it for display, never for durations. */
  now(): number;
  /** Milliseconds from an arbitrary start. Never goes back: use it for deadlines and durations. */
  monotonic(): number;
  /**
   * Calls `callback` once after `delayMs`, which may exceed 2^31-1 ms. With `background`, a pending timer does not keep the
   * process alive.
   */
  setTimer(delayMs: number, callback: () => void, options?: { readonly background?: boolean }): Timer;
}

/** The maximum delay of `setTimeout`, which fires immediately if it is exceeded. */
const maxTimeoutMs = 2 ** 31 - 1;

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(delayMs, callback, options) {
    const due = performance.now() + delayMs;
    let handle: NodeJS.Timeout;
    const arm = (): void => {
      const left = due - performance.now();
      handle = setTimeout(left > maxTimeoutMs ? arm : callback, Math.min(Math.max(left, 0), maxTimeoutMs));
      if (options?.background) handle.unref();
    };
    arm();
    return { cancel: () => clearTimeout(handle) };
  },
};

/** Waits for `delayMs`. Rejects with the signal's reason if it aborts first. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      reject(signal?.reason);
    };
    const timer = clock.setTimer(delayMs, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
