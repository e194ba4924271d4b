import type { Clock } from "@keelson/api-machinery/time";

/**
 * A time for deadlines that is comparable with recorded times: the wall clock at creation, advanced by the monotonic clock. Setting
 * the wall clock moves no deadline.
 */
export function steadyTime(clock: Pick<Clock, "now" | "monotonic">): () => number {
  const offset = clock.now() - clock.monotonic();
  return () => offset + clock.monotonic();
}
