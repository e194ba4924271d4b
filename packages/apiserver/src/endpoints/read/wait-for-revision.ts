import type { Call } from "../call.ts";
import { tooLargeResourceVersion } from "../errors.ts";

/** How long a read waits for a state that is not there yet; as kube-apiserver. */
const patienceMs = 3_000;
/** When who waited in vain may ask again. */
const retryAfterSeconds = 1;

/**
 * Resolves when the store has come to `revision`, which a client has seen elsewhere. Rejects with `Timeout` when it has not within three
 * seconds, and with the reason of the request's signal when that is aborted.
 */
export async function untilRevision(
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
    const timer = clock.setTimer(patienceMs, () => {
      stop();
      reject(tooLargeResourceVersion(revision, store.revision, retryAfterSeconds));
    });
    signal?.addEventListener("abort", abort, { once: true });
  });
}
