import type { Deadlines } from "../program/deadlines.ts";
import { isUnreachable } from "./containerd-api.ts";

/** Maximum pause between attempts: 50, 100 ... ms, at most this. */
const maxRetryMs = 5000;

/** Calls containerd, retrying while it is unreachable. Rejects with any other error, after `maxAttempts`, and when `signal` aborts. */
export async function retryWhileUnreachable<T>(
  call: () => Promise<T>,
  deadlines: Deadlines,
  signal: AbortSignal,
  maxAttempts = Number.POSITIVE_INFINITY,
): Promise<T> {
  for (let pauseMs = 50, done = 1; ; pauseMs = Math.min(pauseMs * 2, maxRetryMs), done++) {
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || done >= maxAttempts || !isUnreachable(error)) throw error;
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
