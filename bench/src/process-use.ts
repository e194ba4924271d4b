import { readFileSync } from "node:fs";

/** Clock ticks per second in /proc: 100 on every architecture of Linux (`sysconf(_SC_CLK_TCK)`). */
const ticksPerSecond = 100;

/** Resident memory of a process. Throws if it has exited. */
export function residentMiB(pid: number | undefined): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (kib === undefined) throw new Error(`process ${pid} has exited`);
  return Number(kib) / 1024;
}

/** CPU time of a process without its children (proc(5), `stat`, fields 14 and 15). */
export function cpuMs(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerSecond;
}
