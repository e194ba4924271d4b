import type { Clock } from "./clock.ts";

/** A clock that stands still until a test moves it. */
export interface VirtualClock extends Clock {
  /**
   * Moves time forward by `ms` and runs the timers that fall due, in order of due time and creation, each with the clock at
   * its due time. Pending promises run between timers.
   */
  advance(ms: number): Promise<void>;
  /** Moves `now` by `ms`, possibly backwards, as a corrected wall clock does. `monotonic` and timers are not affected. */
  jump(ms: number): void;
  /** The number of pending timers. A test asserts 0 after a clean stop. */
  readonly pendingTimers: number;
}

/** Creates a {@link VirtualClock} that starts at `startMs` (default: 2026-01-01T00:00:00Z). */
export function createVirtualClock(startMs: number = Date.UTC(2026, 0, 1)): VirtualClock {
  let elapsed = 0;
  let wall = startMs;
  let nextId = 0;
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
      const id = nextId++;
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
