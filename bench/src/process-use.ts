import { readFileSync } from "node:fs";

/** Ticks of {@link cpuMs} a second: Linux tells user space 100 on every architecture (`sysconf(_SC_CLK_TCK)`). */
const ticksPerSecond = 100;

/** Memory that a process holds. Throws when it has ended. */
export function residentMiB(pid: number | undefined): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (kib === undefined) throw new Error(`process ${pid} has ended`);
  return Number(kib) / 1024;
}

/** Processor time of a process so far, without its children's (proc(5), `stat`, fields 14 and 15). */
export function cpuMs(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerSecond;
}
