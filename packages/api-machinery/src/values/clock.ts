/** A timer that can be cancelled. */
export interface Timer {
  cancel(): void;
}

/**
 * Time as a value that is passed in, so that one clock in a test moves queues, informers, leases and the server together.
 * Nothing in Keelson calls `Date.now`, `performance.now` or `setTimeout` but the system clock.
 */
export interface Clock {
  /** Milliseconds since the epoch. May jump; for what people read, never for durations. */
  now(): number;
  /** Milliseconds from an arbitrary start; never goes back. For deadlines and durations. */
  monotonic(): number;
  /**
   * Calls `callback` once after `delayMs` (any length; beyond 2^31-1 ms too). With `background`, a pending timer alone
   * does not keep the process alive.
   */
  setTimer(delayMs: number, callback: () => void, options?: { readonly background?: boolean }): Timer;
}

/** The longest delay that `setTimeout` honours; it fires a longer one at once. */
const longestTimeoutMs = 2 ** 31 - 1;

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(delayMs, callback, options) {
    const due = performance.now() + delayMs;
    let handle: NodeJS.Timeout;
    const arm = (): void => {
      const left = due - performance.now();
      handle = setTimeout(left > longestTimeoutMs ? arm : callback, Math.min(Math.max(left, 0), longestTimeoutMs));
      if (options?.background) handle.unref();
    };
    arm();
    return { cancel: () => clearTimeout(handle) };
  },
};

/** Waits `delayMs` by `clock`. Rejects with the signal's reason when it fires first. */
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
