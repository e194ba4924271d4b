import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";

const maxLength = 1_000;

/** Why a container of a Pod does not start, by its last output. Undefined unless it failed repeatedly. */
export function crashMessage(pod: DeepReadonly<PodObject>): string | undefined {
  for (const { state, lastState, restartCount = 0 } of pod.status?.containerStatuses ?? []) {
    const isBackingOff = state?.waiting?.reason === "CrashLoopBackOff";
    const end = state?.terminated ?? lastState?.terminated;
    if (end === undefined || end.exitCode === 0 || state?.running !== undefined) continue;
    if (!isBackingOff && restartCount < 1) continue;
    return outputOf(end.message ?? "") || `exit code ${end.exitCode}`;
  }
  return undefined;
}

/** The end of a program's output, without the agent's own log lines. */
function outputOf(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  return lines
    .filter((line) => line !== "" && !line.startsWith("{"))
    .slice(-6)
    .join("; ")
    .slice(-maxLength);
}
