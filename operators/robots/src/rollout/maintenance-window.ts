import type { DeepReadonly } from "@keelson/api-machinery";
import type { MaintenanceWindow } from "../api/update-policy.ts";
import { parseCronSchedule } from "@keelson/operator/cron";
import { durationMsOf } from "../work/durations.ts";

/** Whether tasks may be updated now. Times are in milliseconds since the epoch. */
export type WindowState =
  | { readonly kind: "open" }
  /** `opensAtMs` is undefined if no window opens again. */
  | { readonly kind: "closed"; readonly opensAtMs?: number; readonly problem?: string };

/** Whether one of the windows is open. Without windows, updates are always allowed. An invalid window never opens. */
export function windowStateOf(windows: readonly DeepReadonly<MaintenanceWindow>[], now: number): WindowState {
  if (windows.length === 0) return { kind: "open" };
  let opensAtMs: number | undefined;
  let problem: string | undefined;
  for (const window of windows) {
    const timeZone = window.timeZone ?? "UTC";
    const schedule = parseCronSchedule(window.cron, timeZone);
    if ("problem" in schedule) {
      problem ??= `update.maintenanceWindows: ${JSON.stringify(window.cron)} in ${timeZone}: ${schedule.problem}`;
      continue;
    }
    const openedMs = schedule.last(now);
    if (openedMs !== undefined && now < openedMs + durationMsOf(window.duration)) return { kind: "open" };
    const nextMs = schedule.next(now);
    if (nextMs !== undefined && (opensAtMs === undefined || nextMs < opensAtMs)) opensAtMs = nextMs;
  }
  return {
    kind: "closed",
    ...(opensAtMs === undefined ? {} : { opensAtMs }),
    ...(problem === undefined ? {} : { problem }),
  };
}
