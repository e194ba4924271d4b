import type { ProgramStats } from "../driver.ts";
import { elapsedMs, ticksPerSecond } from "../process/proc.ts";
import type { ProcessStat } from "../process/proc.ts";

/**
 * Sums up the resource usage of a program's processes. CPU is averaged since the previous sample, or since the program's start
 * (`startTime`, in ticks since boot).
 */
export function createStatsSampler(startTime: number): (processes: readonly ProcessStat[]) => ProgramStats {
  let last = { at: 0, ticks: 0 };
  return (processes) => {
    const at = elapsedMs(startTime);
    const ticks = processes.reduce((sum, stat) => sum + stat.cpuTicks, 0);
    const spentMs = (Math.max(ticks - last.ticks, 0) * 1000) / ticksPerSecond;
    const cpuMillis = at > last.at ? Math.round((spentMs / (at - last.at)) * 1000) : 0;
    last = { at, ticks };
    return { cpuMillis, memoryBytes: processes.reduce((sum, stat) => sum + stat.residentBytes, 0), pids: processes.length };
  };
}
