import { readdir, readFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";

/** A process as `/proc/<pid>/stat` shows it. */
export interface ProcessStat {
  readonly pid: number;
  /** `Z` and `X` have terminated and wait to be reaped. */
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** User and system time, in ticks of 1/100 s. */
  readonly cpuTicks: number;
  /** Ticks of 1/100 s from boot to its start (field 22). Together with the pid and the boot id it identifies a process uniquely. */
  readonly startTime: number;
  readonly residentBytes: number;
}

/** Ticks per second in `/proc`: USER_HZ, 100 on every architecture that Node supports. */
export const ticksPerSecond = 100;

const pageBytes = 4096;

/** Parses a line of `/proc/<pid>/stat`. The name in parentheses may hold spaces and parentheses, so the last `)` counts. */
export function parseStat(text: string): ProcessStat | undefined {
  const close = text.lastIndexOf(")");
  const pid = Number.parseInt(text, 10);
  const fields = text
    .slice(close + 2)
    .trim()
    .split(" ");
  const number = (index: number): number => Number(fields[index - 3]);
  const stat = {
    pid,
    state: fields[0] ?? "",
    parent: number(4),
    group: number(5),
    session: number(6),
    cpuTicks: number(14) + number(15),
    startTime: number(22),
    residentBytes: number(24) * pageBytes,
  };
  return close < 0 || Number.isNaN(stat.pid + stat.startTime + stat.residentBytes) ? undefined : stat;
}

/** The process, or undefined if it does not exist. */
export function readStat(pid: number): ProcessStat | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return undefined;
  }
}

/** Whether this very process, not a later one with the same pid, is alive. */
export function isAlive(pid: number, startTime: number): boolean {
  const stat = readStat(pid);
  return stat !== undefined && stat.startTime === startTime && !hasEnded(stat);
}

/** Whether the process has terminated and waits to be reaped. */
export function hasEnded(stat: ProcessStat): boolean {
  return stat.state === "Z" || stat.state === "X";
}

/** Processes that {@link listProcesses} reads before it serves other events. */
const processesPerTurn = 50;

/** Every process of this machine. */
export async function listProcesses(): Promise<readonly ProcessStat[]> {
  const pids = (await readdir("/proc")).map(Number).filter((pid) => Number.isInteger(pid));
  const found: ProcessStat[] = [];
  for (const [index, pid] of pids.entries()) {
    if (index > 0 && index % processesPerTurn === 0) await setImmediate();
    const stat = readStat(pid);
    if (stat !== undefined) found.push(stat);
  }
  return found;
}

/** Lists the processes of this machine, once for callers that come at the same time. */
export class ProcessList {
  readonly #list: typeof listProcesses;
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<readonly ProcessStat[]> | undefined;

  constructor(list = listProcesses) {
    this.#list = list;
  }

  /** Like {@link listProcesses}. Callers that come while a listing runs share the one after it, so each sees processes of after its call. */
  list(): Promise<readonly ProcessStat[]> {
    this.#next ??= this.#running.then(() => {
      const listing = this.#list();
      this.#next = undefined;
      this.#running = listing.catch(() => undefined);
      return listing;
    });
    return this.#next;
  }
}

/** Whether a process was started with `NAME=value` in its environment; false if its environment is not readable. */
export async function hasEnvironment(pid: number, assignment: string): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/environ`, "latin1")).split("\0").includes(assignment);
  } catch {
    return false;
  }
}

/** The environment with which a process was started; empty if it is not readable. The first value of a variable counts. */
export async function readEnvironment(pid: number): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
  const pairs = text
    .split("\0")
    .map((pair) => [pair.slice(0, Math.max(pair.indexOf("="), 0)), pair.slice(pair.indexOf("=") + 1)] as const);
  return new Map(pairs.toReversed());
}

/** The boot id, which changes with every boot. */
export function readBootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
}

/** Milliseconds since a process started, by the kernel's monotonic clock. */
export function elapsedMs(startTime: number): number {
  const uptimeSeconds = Number.parseFloat(readFileSync("/proc/uptime", "latin1"));
  return Math.max(uptimeSeconds * 1000 - (startTime * 1000) / ticksPerSecond, 0);
}
