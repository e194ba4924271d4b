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

/** A clock that stands still until a test moves it. */
export interface VirtualClock extends Clock {
  /**
   * Moves time forward by `ms`, running every timer that falls due in order of its time (then of its making), with the
   * clock standing at each timer's time while it runs. Between timers, pending promises get a turn.
   */
  advance(ms: number): Promise<void>;
  /** Makes `now` jump by `ms` (also back), as a corrected wall clock does. `monotonic` and timers do not move. */
  jump(ms: number): void;
  /** Timers that are pending: what a test asserts to be 0 after a clean stop. */
  readonly pendingTimers: number;
}

/** Makes a {@link VirtualClock} that starts at `startMs` (default 2026-01-01T00:00:00Z). */
export function createVirtualClock(startMs: number = Date.UTC(2026, 0, 1)): VirtualClock {
  let elapsed = 0;
  let wall = startMs;
  let made = 0;
  const timers = new Map<number, { readonly due: number; readonly callback: () => void }>();
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const nearest = (limit: number): number | undefined => {
    let best: number | undefined;
    let bestDue = limit;
    for (const [id, timer] of timers) {
      if (timer.due < bestDue || (timer.due === bestDue && best === undefined)) {
        best = id;
        bestDue = timer.due;
      }
    }
    return best;
  };
  return {
    now: () => wall + elapsed,
    monotonic: () => elapsed,
    setTimer(delayMs, callback) {
      const id = made++;
      timers.set(id, { due: elapsed + Math.max(delayMs, 0), callback });
      return { cancel: () => void timers.delete(id) };
    },
    async advance(ms) {
      const end = elapsed + ms;
      await turn();
      for (let id = nearest(end); id !== undefined; id = nearest(end)) {
        const timer = timers.get(id);
        timers.delete(id);
        if (timer === undefined) continue;
        elapsed = Math.max(elapsed, timer.due);
        timer.callback();
        await turn();
      }
      elapsed = end;
    },
    jump(ms) {
      wall += ms;
    },
    get pendingTimers() {
      return timers.size;
    },
  };
}
