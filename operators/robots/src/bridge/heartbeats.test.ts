import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import { type HeartbeatStatus, Heartbeats, writeIntervalMs } from "./heartbeats.ts";

function setUp() {
  const clock = createVirtualClock();
  const writes: HeartbeatStatus[] = [];
  const heartbeats = new Heartbeats({ clock, statusOf: () => undefined, write: (_, status) => writes.push(status) });
  return { clock, writes, heartbeats };
}

describe("Heartbeats", () => {
  it("advances lastHeartbeatTime with every write (B11), at most once in 30 seconds", async () => {
    const { clock, writes, heartbeats } = setUp();
    for (let second = 0; second < 120; second += 5) {
      heartbeats.update("r", { isAlive: true });
      await clock.advance(5000);
    }
    const times = writes.map((status) => Date.parse(status.lastHeartbeatTime ?? "") / 1000);
    expect(times).toHaveLength(5);
    for (let index = 1; index < times.length; index++)
      expect((times[index] ?? 0) - (times[index - 1] ?? 0)).toBeGreaterThan(20);
    heartbeats.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  it("writes a change of connection, boot or machine immediately, but not of utilisation", async () => {
    const { clock, writes, heartbeats } = setUp();
    const info = (usagePercent: number, logicalCores = 4) => ({ cpu: { logicalCores, usagePercent } });
    heartbeats.update("r", { isAlive: true, connected: true, bootId: "a", deviceInfo: info(1) });
    expect(writes).toHaveLength(1);
    heartbeats.update("r", { isAlive: true, deviceInfo: info(99) });
    expect(writes).toHaveLength(1);
    heartbeats.update("r", { connected: false });
    expect(writes.at(-1)).toMatchObject({ connected: false, bootId: "a", deviceInfo: info(99) });
    heartbeats.update("r", { isAlive: true });
    expect(writes.at(-1)).toMatchObject({ connected: true, deviceInfo: info(99) });
    heartbeats.update("r", { isAlive: true, drivers: ["exec"] });
    heartbeats.update("r", { isAlive: true, drivers: ["exec"] });
    heartbeats.update("r", { isAlive: true, bootId: "b" });
    heartbeats.update("r", { isAlive: true, deviceInfo: info(50, 8) });
    expect(writes).toHaveLength(6);
    expect(writes.at(-1)).toMatchObject({ bootId: "b", drivers: ["exec"], deviceInfo: info(50, 8) });
    await clock.advance(writeIntervalMs);
    expect(writes).toHaveLength(6);
  });

  it("updates utilisation with the next heartbeat that is written", async () => {
    const { clock, writes, heartbeats } = setUp();
    const info = (usagePercent: number) => ({ cpu: { logicalCores: 4, usagePercent } });
    heartbeats.update("r", { isAlive: true, deviceInfo: info(1) });
    await clock.advance(writeIntervalMs - 1);
    heartbeats.update("r", { isAlive: true, deviceInfo: info(2) });
    await clock.advance(1);
    expect(writes.map(({ deviceInfo }) => deviceInfo)).toEqual([info(1), info(2)]);
  });

  it("does not treat what the broker reports as a heartbeat", () => {
    const { writes, heartbeats } = setUp();
    heartbeats.update("r", { connected: true });
    expect(writes).toEqual([{ connected: true }]);
  });
});
