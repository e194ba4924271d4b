import { readFileSync } from "node:fs";
import { cpus, freemem, totalmem } from "node:os";

/** The resource usage of a machine. */
export interface NodeUsage {
  /** Thousandths of a core, averaged since the previous call. */
  readonly cpuMillis: number;
  /** CPU time of all cores since the machine has started. */
  readonly cpuSeconds: number;
  /** Memory that is not available to new programs. */
  readonly memoryBytes: number;
}

/** Creates a function that measures this machine. */
export function createNodeUsage(): () => NodeUsage {
  let last = cpuTimes();
  return () => {
    const now = cpuTimes();
    const totalMs = now.totalMs - last.totalMs;
    const busyMs = now.busyMs - last.busyMs;
    last = now;
    const cores = Math.max(cpus().length, 1);
    const cpuMillis = totalMs <= 0 ? 0 : (busyMs / totalMs) * cores * 1_000;
    return { cpuMillis, cpuSeconds: now.busyMs / 1_000, memoryBytes: totalmem() - availableBytes() };
  };
}

function cpuTimes(): { readonly busyMs: number; readonly totalMs: number } {
  let busyMs = 0;
  let totalMs = 0;
  for (const { times } of cpus()) {
    const busy = times.user + times.nice + times.sys + times.irq;
    busyMs += busy;
    totalMs += busy + times.idle;
  }
  return { busyMs, totalMs };
}

function availableBytes(): number {
  try {
    const kib = /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1];
    return kib === undefined ? freemem() : Number(kib) * 1_024;
  } catch {
    return freemem();
  }
}
