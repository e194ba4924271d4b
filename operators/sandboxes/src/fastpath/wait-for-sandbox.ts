import { Code, ConnectError } from "@connectrpc/connect";
import type { DeepReadonly } from "@keelson/api-machinery";
import { Sandbox } from "../api/sandbox.ts";
import { waitForObject, type WaitOptions } from "./wait-for-object.ts";

/** Namespace and name of a Sandbox. */
export interface SandboxKey {
  readonly namespace: string;
  readonly name: string;
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
  options: WaitOptions,
): Promise<DeepReadonly<Sandbox> | undefined> {
  const { cache, timeoutMs } = options;
  const fail = (reason: "timeout" | "aborted"): ConnectError => {
    const sandbox = cache.get(Sandbox, key);
    if (reason === "aborted") return waitError(Code.DeadlineExceeded, "deadline exceeded or call cancelled", key, sandbox);
    const isWaiting = (sandbox?.status?.phase ?? "Pending") === "Pending";
    const code = isWaiting ? Code.ResourceExhausted : Code.DeadlineExceeded;
    return waitError(code, `not running after ${timeoutMs} ms`, key, sandbox);
  };
  return waitForObject(Sandbox, key, isReached, fail, options);
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
