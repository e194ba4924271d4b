import type { Clock } from "@keelson/api-machinery/time";
import { TransportError } from "@keelson/client";

/**
 * Runs `request` with a signal that is aborted after `limitMs` or with the outer signal. Does not wait for a request that ignores its
 * signal. **Errors**: a {@link TransportError} with the code `Timeout`, or the reason of the outer signal.
 */
export async function requestWithin<T>(
  limitMs: number,
  request: (signal: AbortSignal) => Promise<T>,
  { clock, signal: outer }: { readonly clock: Clock; readonly signal: AbortSignal | undefined },
): Promise<T> {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(outer?.reason);
  const timedOut = new Promise<never>((_, reject) => {
    controller.signal.addEventListener("abort", () => reject(controller.signal.reason), { once: true });
  });
  const timer = clock.setTimer(limitMs, () =>
    controller.abort(new TransportError("Timeout", `no response within ${limitMs} ms`)),
  );
  if (outer?.aborted) onAbort();
  outer?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([request(controller.signal), timedOut]);
  } finally {
    timer.cancel();
    outer?.removeEventListener("abort", onAbort);
  }
}
