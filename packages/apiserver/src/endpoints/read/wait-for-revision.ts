import type { Call } from "../call.ts";
import { tooLargeResourceVersion } from "../errors.ts";

/** How long a read waits for a future revision. Same as kube-apiserver. */
const maxWaitMs = 3_000;
/** When the client may retry after a timeout. */
export const retryAfterSeconds = 1;

/**
 * Waits until the store has reached `revision`, which the client may have seen on another server.
 *
 * **Errors**: `Timeout` after three seconds; the abort reason if the request's signal is aborted.
 */
export async function waitForRevision(
  { store, clock, request }: Pick<Call, "store" | "clock" | "request">,
  revision: number,
): Promise<void> {
  if (revision <= store.revision) return;
  const { signal } = request;
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const stop = (): void => {
      watch.close();
      timer.cancel();
      signal?.removeEventListener("abort", abort);
    };
    const abort = (): void => {
      stop();
      reject(signal?.reason instanceof Error ? signal.reason : new Error("the request was aborted"));
    };
    const watch = store.watch("", store.revision, () => {
      if (store.revision < revision) return;
      stop();
      resolve();
    });
    const timer = clock.setTimer(maxWaitMs, () => {
      stop();
      reject(tooLargeResourceVersion(revision, store.revision, retryAfterSeconds));
    });
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Waits for the revision as {@link waitForRevision}, and for a turn to read in: many watches may open together. Returns undefined if the state can be read immediately. */
export function waitForState(call: Call, revision: number): Promise<void> | undefined {
  if (revision <= call.store.revision) return call.turns.enter();
  return waitForRevision(call, revision).then(() => call.turns.enter());
}
