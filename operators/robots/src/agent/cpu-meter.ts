import type { CpuInfo } from "node:os";
import type { DeviceInfo } from "../api/device-info.ts";

type Use = Pick<NonNullable<DeviceInfo["cpu"]>, "usagePercent" | "perCpuUsage">;

interface Sample {
  readonly busy: number;
  readonly total: number;
}

/** Measures the use of processors between two calls. */
export class CpuMeter {
  #last: readonly Sample[] = [];

  /** The use since the last call, in percent. Empty at the first call, and if processors were added or removed. */
  read(cores: readonly Pick<CpuInfo, "times">[]): Use {
    const now = cores.map(({ times }) => {
      const total = Object.values(times).reduce((sum, each) => sum + each, 0);
      return { busy: total - times.idle, total };
    });
    const last = this.#last;
    this.#last = now;
    if (last.length !== now.length || now.length === 0) return {};
    const spent = now.map((each, index) => {
      const before = last[index] ?? each;
      return { busy: each.busy - before.busy, total: each.total - before.total };
    });
    const sum = (key: keyof Sample): number => spent.reduce((all, each) => all + each[key], 0);
    return {
      usagePercent: percent(sum("busy"), sum("total")),
      perCpuUsage: spent.map(({ busy, total }) => percent(busy, total)),
    };
  }
}

/** One decimal. The counters of a virtual machine may go back. */
const percent = (busy: number, total: number): number =>
  total <= 0 ? 0 : Math.round(Math.min(Math.max(busy / total, 0), 1) * 1000) / 10;
