import { Code, ConnectError } from "@connectrpc/connect";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Cache, OnChange } from "@keelson/controller";
import { Sandbox } from "../api/sandbox.ts";

/** Namespace and name of a Sandbox. */
export interface SandboxKey {
  readonly namespace: string;
  readonly name: string;
}

/** Options of {@link waitForSandbox}. */
export interface WaitOptions {
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Watches the cache until a Sandbox satisfies a condition; `undefined` stands for a deleted or missing one.
 *
 * **Errors**: `ConnectError` with the current phase: `ResourceExhausted` if the Sandbox still waits for a slot after `timeoutMs`,
 * `DeadlineExceeded` otherwise, and when the signal aborts.
 */
export function waitForSandbox(
  key: SandboxKey,
  isReached: (sandbox: DeepReadonly<Sandbox> | undefined) => boolean,
  { cache, onChange, clock, timeoutMs, signal }: WaitOptions,
): Promise<DeepReadonly<Sandbox> | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      unsubscribe();
      timer.cancel();
      signal.removeEventListener("abort", abort);
    };
    const check = (sandbox: DeepReadonly<Sandbox> | undefined): void => {
      if (!isReached(sandbox)) return;
      settle();
      resolve(sandbox);
    };
    const fail = (code: Code, reason: string): void => {
      settle();
      reject(waitError(code, reason, key, cache.get(Sandbox, key)));
    };
    const abort = (): void => fail(Code.DeadlineExceeded, "deadline exceeded or call cancelled");
    const giveUp = (): void => {
      const isWaiting = (cache.get(Sandbox, key)?.status?.phase ?? "Pending") === "Pending";
      fail(isWaiting ? Code.ResourceExhausted : Code.DeadlineExceeded, `not running after ${timeoutMs} ms`);
    };
    const unsubscribe = onChange(Sandbox, ({ type, object }) => {
      if (object.metadata.name === key.name && object.metadata.namespace === key.namespace)
        check(type === "delete" ? undefined : object);
    });
    const timer = clock.setTimer(timeoutMs, giveUp, { background: true });
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    else check(cache.get(Sandbox, key));
  });
}

function waitError(
  code: Code,
  reason: string,
  { namespace, name }: SandboxKey,
  sandbox: DeepReadonly<Sandbox> | undefined,
): ConnectError {
  const { phase = "Pending", message } = sandbox?.status ?? {};
  const detail = message ? `: ${message}` : "";
  return new ConnectError(`${reason}; sandbox ${namespace}/${name} is ${phase}${detail}`, code);
}
