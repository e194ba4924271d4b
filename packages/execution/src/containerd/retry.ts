import type { Deadlines } from "../program/deadlines.ts";
import { isUnreachable } from "./containerd-api.ts";

/** How long containerd may be away before the next try: 50, 100 ... ms, at most this. */
const longestRetryMs = 5000;

/** Calls containerd, again while it is away. Rejects with any other error, after `tries`, and when `signal` says to stop. */
export async function persist<T>(
  call: () => Promise<T>,
  deadlines: Deadlines,
  signal: AbortSignal,
  tries = Number.POSITIVE_INFINITY,
): Promise<T> {
  for (let pauseMs = 50, done = 1; ; pauseMs = Math.min(pauseMs * 2, longestRetryMs), done++) {
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || done >= tries || !isUnreachable(error)) throw error;
    }
    await new Promise<void>((resolve) => {
      const pause = deadlines.after(pauseMs, resolve);
      const stop = (): void => {
        pause.cancel();
        resolve();
      };
      signal.addEventListener("abort", stop, { once: true });
    });
  }
}
