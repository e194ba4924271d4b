import { readdirSync, readFileSync } from "node:fs";

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

/** Memory of a process with its share of pages that other processes use as well (`Pss`), so that the values of several processes add up. */
export function proportionalMiB(pid: number | undefined): number {
  const kib = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1];
  if (kib === undefined) throw new Error(`process ${pid} has exited`);
  return Number(kib) / 1024;
}

/** The children of a process, without those of its children. */
export function childrenOf(pid: number | undefined): readonly number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
}
