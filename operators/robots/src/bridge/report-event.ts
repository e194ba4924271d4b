import type { StatusMessage } from "../protocol/messages.ts";

/** Reasons of warnings, as in K8s4r. */
const warnings: readonly StatusMessage["event"][] = ["DownloadFailed", "Failed", "StartFailed", "Timeout", "Unhealthy"];

/** The event of a stored report; undefined if it has none. The reason is the robot's own name of what happened. */
export function eventOfReport({
  robotName,
  state,
  event,
  message,
}: StatusMessage): { readonly type: "Normal" | "Warning"; readonly reason: string; readonly note: string } | undefined {
  if (state === "deleted" || event === undefined || !/^[A-Z][A-Za-z]{0,63}$/.test(event)) return undefined;
  return {
    type: warnings.includes(event) ? "Warning" : "Normal",
    reason: event,
    note: `${robotName}: ${message}`.slice(0, 1024),
  };
}
