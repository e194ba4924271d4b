import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Cache, OnChange } from "@keelson/controller";

/** Options of {@link waitForObject}. */
export interface WaitOptions {
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Watches the cache until an object satisfies a condition; `undefined` stands for a deleted or missing one. Rejects with the error of
 * `fail` after `timeoutMs` and when the signal aborts.
 */
export function waitForObject<T extends KubernetesObject>(
  type: ResourceType<T>,
  key: { readonly namespace: string; readonly name: string },
  isReached: (object: DeepReadonly<T> | undefined) => boolean,
  fail: (reason: "timeout" | "aborted") => Error,
  { cache, onChange, clock, timeoutMs, signal }: WaitOptions,
): Promise<DeepReadonly<T> | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      unsubscribe();
      timer.cancel();
      signal.removeEventListener("abort", abort);
    };
    const check = (object: DeepReadonly<T> | undefined): void => {
      if (!isReached(object)) return;
      settle();
      resolve(object);
    };
    const giveUp = (reason: "timeout" | "aborted"): void => {
      settle();
      reject(fail(reason));
    };
    const abort = (): void => giveUp("aborted");
    const unsubscribe = onChange(type, ({ type: change, object }) => {
      const { name, namespace } = object.metadata;
      if (name === key.name && namespace === key.namespace) check(change === "delete" ? undefined : object);
    });
    const timer = clock.setTimer(timeoutMs, () => giveUp("timeout"), { background: true });
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    else check(cache.get(type, key));
  });
}
