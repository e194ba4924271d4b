import { existsSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Limits } from "../driver.ts";
import type { Controller } from "./cgroup-hierarchies.ts";

/** The limits that cgroups enforce. */
export type CgroupLimit = "cpuMillis" | "cpuShares" | "memoryBytes" | "pids";

/** The controller that enforces each {@link CgroupLimit}. */
export const controllerOf: Readonly<Record<CgroupLimit, Controller>> = {
  cpuMillis: "cpu",
  cpuShares: "cpu",
  memoryBytes: "memory",
  pids: "pids",
};

const cgroupLimits = ["cpuMillis", "cpuShares", "memoryBytes", "pids"] as const satisfies readonly CgroupLimit[];

/** Those of `limits` that cgroups enforce. */
export function cgroupLimitsOf(limits: Limits): readonly { readonly limit: CgroupLimit; readonly value: number }[] {
  return cgroupLimits.flatMap((limit) => {
    const value = limits[limit];
    return value === undefined ? [] : [{ limit, value }];
  });
}

/** The period of CPU quotas in microseconds. */
export const cpuPeriodMicros = 100_000;

/** The CPU time per {@link cpuPeriodMicros} for thousandths of a CPU. The kernel rejects quotas under 1 ms. */
export const cpuQuotaMicros = (cpuMillis: number): number => Math.max(Math.round((cpuMillis * cpuPeriodMicros) / 1000), 1000);

/**
 * The weight in cgroup version 2 (1 to 10,000) for shares of version 1 (2 to 262,144). As in the OCI runtimes: both defaults, 1024 and
 * 100, correspond, and so do both ends of the range.
 */
export function cpuWeightOf(shares: number): number {
  if (shares <= 2) return 1;
  if (shares >= 262_144) return 10_000;
  const log = Math.log2(shares);
  return Math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34));
}

type Settings = readonly (readonly [file: string, value: string])[];

/** Files and values that set a limit in one cgroup version. */
function settingsOf(version: 1 | 2, limit: CgroupLimit, value: number): Settings {
  switch (limit) {
    case "cpuMillis": {
      const quota = String(cpuQuotaMicros(value));
      if (version === 2) return [["cpu.max", `${quota} ${cpuPeriodMicros}`]];
      return [
        ["cpu.cfs_period_us", String(cpuPeriodMicros)],
        ["cpu.cfs_quota_us", quota],
      ];
    }
    case "cpuShares":
      return version === 2 ? [["cpu.weight", String(cpuWeightOf(value))]] : [["cpu.shares", String(value)]];
    case "memoryBytes":
      return [[version === 2 ? "memory.max" : "memory.limit_in_bytes", String(value)]];
    case "pids":
      return [["pids.max", String(value)]];
  }
}

/** Sets a limit of the cgroup `folder`. Throws what the file system throws. */
export function setCgroupLimit(folder: string, version: 1 | 2, limit: CgroupLimit, value: number): void {
  const settings = settingsOf(version, limit, value);
  if (limit === "memoryBytes") setMemoryLimit(folder, version, settings);
  else write(folder, settings);
}

function write(folder: string, settings: Settings): void {
  for (const [file, value] of settings) writeFileSync(join(folder, file), value);
}

/** The limit of the buffers of sockets, which cgroups of version 1 count separately. */
const socketLimit = "memory.kmem.tcp.limit_in_bytes";

/** Sets a memory limit, without swap: a program at its limit is killed instead. Machines without swap accounting lack the file. */
function setMemoryLimit(folder: string, version: 1 | 2, settings: Settings): void {
  const swap = join(folder, version === 2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes");
  const swapSettings = existsSync(swap)
    ? settings.map(([, bytes]) => [basename(swap), version === 2 ? "0" : bytes] as const)
    : [];
  try {
    write(folder, settings);
  } catch (error) {
    // In version 1 the limit with swap is never below the limit without: it is raised first, and lowered last.
    if (version === 2 || swapSettings.length === 0) throw error;
    write(folder, [...swapSettings, ...settings]);
  }
  write(folder, swapSettings);
  if (version === 1) for (const [, bytes] of settings) limitSockets(folder, Number(bytes));
}

/**
 * Limits the buffers of sockets in the cgroup `folder` of version 1. Machines whose kernel does not count them lack the file. Version 2
 * counts them as memory.
 */
export function limitSockets(folder: string, bytes: number): void {
  if (existsSync(join(folder, socketLimit))) write(folder, [[socketLimit, String(bytes)]]);
}
