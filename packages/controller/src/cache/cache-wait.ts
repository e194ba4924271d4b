import type { Clock } from "@keelson/api-machinery/time";

/** Waits for a state of the cache: calls `reached` once, later. Returns a function that stops waiting. */
export type CacheWait = (reached: () => void) => () => void;

/** Options of {@link Cache.whenSeen} and {@link Cache.whenDeleted}. */
export interface CacheWaitOptions {
  /** How long to wait. Default 5000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** The cache did not reach the expected state in time. */
export class CacheTimeoutError extends Error {
  override readonly name = "CacheTimeoutError";
  readonly code = "CacheTimeout";
}

/** The cache was stopped while it was being waited for. */
export class CacheStoppedError extends Error {
  override readonly name = "CacheStoppedError";
  readonly code = "CacheStopped";
}

/** What a wait needs in addition to its options. */
export interface CacheWaitContext {
  readonly clock: Clock;
  /** Aborted when the cache stops. */
  readonly stop: AbortSignal;
  /** Creates the error after `timeoutMs`. */
  readonly late: (timeoutMs: number) => Error;
  /** Creates the error if the cache stops. */
  readonly stopped: () => Error;
}

/**
 * Resolves when the state is reached.
 *
 * **Errors**: those of the context; the signal's reason.
 */
export function waitForCache(wait: CacheWait, context: CacheWaitContext, options: CacheWaitOptions): Promise<void> {
  const { clock, stop, late, stopped } = context;
  const { timeoutMs = 5_000, signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const end = (finish: () => void): void => {
      stopWaiting();
      timer.cancel();
      signal?.removeEventListener("abort", onAbort);
      stop.removeEventListener("abort", onStop);
      finish();
    };
    const onAbort = (): void => end(() => reject(signal?.reason));
    const onStop = (): void => end(() => reject(stopped()));
    const timer = clock.setTimer(timeoutMs, () => end(() => reject(late(timeoutMs))));
    const stopWaiting = wait(() => end(resolve));
    signal?.addEventListener("abort", onAbort, { once: true });
    stop.addEventListener("abort", onStop, { once: true });
    if (stop.aborted) onStop();
  });
}
