import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import { createHeartbeats, type HeartbeatStatus, writeEveryMs } from "./heartbeats.ts";

function setUp() {
  const clock = createVirtualClock();
  const writes: HeartbeatStatus[] = [];
  const heartbeats = createHeartbeats({ clock, statusOf: () => undefined, write: (_, status) => writes.push(status) });
  return { clock, writes, heartbeats };
}

describe("createHeartbeats", () => {
  it("moves lastHeartbeatTime on with every write (B11), at most once in 30 seconds", async () => {
    const { clock, writes, heartbeats } = setUp();
    for (let second = 0; second < 120; second += 5) {
      heartbeats.heard("r", { isAlive: true });
      await clock.advance(5000);
    }
    const times = writes.map((status) => Date.parse(status.lastHeartbeatTime ?? "") / 1000);
    expect(times).toHaveLength(5);
    for (let index = 1; index < times.length; index++)
      expect((times[index] ?? 0) - (times[index - 1] ?? 0)).toBeGreaterThan(20);
    heartbeats.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  it("writes a change of connection, boot or machine at once, and usage never by itself", async () => {
    const { clock, writes, heartbeats } = setUp();
    const info = (usagePercent: number, logicalCores = 4) => ({ cpu: { logicalCores, usagePercent } });
    heartbeats.heard("r", { isAlive: true, connected: true, bootId: "a", deviceInfo: info(1) });
    expect(writes).toHaveLength(1);
    heartbeats.heard("r", { isAlive: true, deviceInfo: info(99) });
    expect(writes).toHaveLength(1);
    heartbeats.heard("r", { connected: false });
    expect(writes.at(-1)).toMatchObject({ connected: false, bootId: "a", deviceInfo: info(1) });
    heartbeats.heard("r", { isAlive: true });
    expect(writes.at(-1)).toMatchObject({ connected: true });
    heartbeats.heard("r", { isAlive: true, bootId: "b" });
    heartbeats.heard("r", { isAlive: true, deviceInfo: info(50, 8) });
    expect(writes).toHaveLength(5);
    expect(writes.at(-1)).toMatchObject({ bootId: "b", deviceInfo: info(50, 8) });
    await clock.advance(writeEveryMs);
    expect(writes).toHaveLength(5);
  });

  it("does not take what the broker says for a sign of life", () => {
    const { writes, heartbeats } = setUp();
    heartbeats.heard("r", { connected: true });
    expect(writes).toEqual([{ connected: true }]);
  });
});
