import type { Clock } from "@keelson/api-machinery/time";

/**
 * A time for deadlines that can be compared with written-down times: milliseconds since the epoch as the wall clock had it when
 * this was made, moved on by the monotonic clock. A wall clock that is set anew meanwhile moves no deadline.
 */
export function steadyTime(clock: Pick<Clock, "now" | "monotonic">): () => number {
  const offset = clock.now() - clock.monotonic();
  return () => offset + clock.monotonic();
}
