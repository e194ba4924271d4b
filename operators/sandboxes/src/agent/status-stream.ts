import type { Clock } from "@keelson/api-machinery/time";
import type { SandboxManager } from "../sandbox/sandbox-manager.ts";

/** Interval of statuses on an idle stream, so that a lost connection is noticed. */
export const statusHeartbeatMs = 5_000;

/** The statuses of an agent as JSON lines: immediately, after each change and every {@link statusHeartbeatMs}, until `signal` aborts. */
export async function* streamStatuses(
  manager: Pick<SandboxManager, "status" | "onChange">,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<string> {
  let wake: () => void = () => {};
  let isDirty = true;
  const notify = (): void => {
    isDirty = true;
    wake();
  };
  const stop = manager.onChange(notify);
  signal.addEventListener("abort", notify, { once: true });
  try {
    while (!signal.aborted) {
      isDirty = false;
      yield `${JSON.stringify(manager.status())}\n`;
      if (isDirty) continue;
      const timer = clock.setTimer(statusHeartbeatMs, notify, { background: true });
      await new Promise<void>((resolve) => (wake = resolve));
      timer.cancel();
    }
  } finally {
    stop();
  }
}
