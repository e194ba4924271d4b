import { createDeferred } from "@keelson/api-machinery/deferred";

/** Resolves when `promise` does. **Errors**: those of `promise`; the reason of `signal`. */
export async function settledOrAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const aborted = createDeferred<never>();
  const onAbort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
