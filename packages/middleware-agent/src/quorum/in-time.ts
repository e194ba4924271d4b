import type { Clock } from "@keelson/api-machinery/time";

/** Waits for work, at most for a time. The work continues. */
export async function inTime(clock: Clock, timeoutMs: number, work: Promise<unknown>): Promise<void> {
  let onTimeout = (): void => undefined;
  const isLate = new Promise<void>((resolve) => {
    onTimeout = resolve;
  });
  const timer = clock.setTimer(timeoutMs, () => onTimeout());
  try {
    await Promise.race([work, isLate]);
  } finally {
    timer.cancel();
  }
}
