import { expect, it } from "vitest";
import { CpuMeter } from "./cpu-meter.ts";

const core = (user: number, idle: number) => ({ times: { user, nice: 0, sys: 0, idle, irq: 0 } });

it("measures the use of each core since the last call", () => {
  const meter = new CpuMeter();
  expect(meter.read([core(1000, 1000), core(0, 0)])).toEqual({});
  expect(meter.read([core(1250, 1750), core(0, 1000)])).toEqual({ usagePercent: 12.5, perCpuUsage: [25, 0] });
  // A core that was added.
  expect(meter.read([core(1250, 1750), core(0, 1000), core(0, 0)])).toEqual({});
  // Counters that go back.
  expect(meter.read([core(1000, 2750), core(0, 1000), core(0, 0)])).toEqual({ usagePercent: 0, perCpuUsage: [0, 0, 0] });
});
