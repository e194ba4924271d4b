import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import {
  changeDelayMs,
  changeLimit,
  type HeartbeatStatus,
  Heartbeats,
  silenceTimeoutMs,
  writeIntervalMs,
} from "./heartbeats.ts";

function setUp() {
  const clock = createVirtualClock();
  const writes: HeartbeatStatus[] = [];
  const heartbeats = new Heartbeats({ clock, statusOf: () => undefined, write: (_, status) => writes.push(status) > 0 });
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

  it("writes a robot that keeps changing once per delay, with its last change", async () => {
    const { clock, writes, heartbeats } = setUp();
    for (let boot = 0; boot < 500; boot++)
      heartbeats.update("r", { isAlive: true, connected: boot % 2 === 0, bootId: `${boot}` });
    expect(writes).toHaveLength(changeLimit.burst);
    await clock.advance(changeDelayMs);
    expect(writes).toHaveLength(changeLimit.burst + 1);
    expect(writes.at(-1)).toMatchObject({ bootId: "499", connected: false });
    heartbeats.update("s", { isAlive: true, bootId: "a" });
    expect(writes.at(-1)).toMatchObject({ bootId: "a" });
    heartbeats.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  it("repeats a write that did not fit the queue", async () => {
    const clock = createVirtualClock();
    const writes: HeartbeatStatus[] = [];
    const heartbeats = new Heartbeats({ clock, statusOf: () => undefined, write: (_, status) => writes.push(status) > 1 });
    heartbeats.update("r", { connected: true });
    await clock.advance(changeDelayMs);
    expect(writes).toEqual([{ connected: true }, { connected: true }]);
    heartbeats.stop();
  });

  it("ignores what arrives after it was stopped", async () => {
    const clock = createVirtualClock();
    const writes: HeartbeatStatus[] = [];
    const heartbeats = new Heartbeats({
      clock,
      statusOf: () => ({ connected: true }),
      write: (_, status) => writes.push(status) < 0,
    });
    heartbeats.stop();
    heartbeats.update("r", { isAlive: true, connected: true, bootId: "a" });
    heartbeats.watch("s");
    await clock.advance(10 * silenceTimeoutMs);
    expect([writes, clock.pendingTimers]).toEqual([[], 0]);
  });

  it("does not treat what the broker reports as a heartbeat", () => {
    const { writes, heartbeats } = setUp();
    heartbeats.update("r", { connected: true });
    expect(writes).toEqual([{ connected: true }]);
  });

  describe("of a connected robot", () => {
    it("are written every four to five minutes", async () => {
      const { clock, writes, heartbeats } = setUp();
      heartbeats.update("r", { isAlive: true, connected: true });
      for (let second = 0; second < 3600; second += 30) {
        await clock.advance(30_000);
        heartbeats.update("r", { isAlive: true });
      }
      expect(writes.length).toBeGreaterThanOrEqual(12);
      expect(writes.length).toBeLessThanOrEqual(16);
      expect(
        writes.every(({ connected, heartbeatAccuracySeconds }) => connected === true && heartbeatAccuracySeconds === 300),
      ).toBe(true);
    });

    it("are fewer than five writes a second with 1,000 robots", async () => {
      const { clock, writes, heartbeats } = setUp();
      const names = Array.from({ length: 1_000 }, (_, index) => `robot-${index}`);
      for (const name of names) heartbeats.update(name, { isAlive: true, connected: true });
      const before = writes.length;
      for (let second = 0; second < 1_200; second += 30) {
        await clock.advance(30_000);
        for (const name of names) heartbeats.update(name, { isAlive: true });
      }
      expect((writes.length - before) / 1_200).toBeLessThan(5);
      heartbeats.stop();
    });

    it("end after 90 seconds of silence, and begin with the next one", async () => {
      const { clock, writes, heartbeats } = setUp();
      heartbeats.update("r", { isAlive: true, connected: true });
      await clock.advance(60_000);
      heartbeats.update("r", { isAlive: true });
      await clock.advance(silenceTimeoutMs - 1);
      expect(writes).toHaveLength(1);
      await clock.advance(1);
      expect(writes.at(-1)).toMatchObject({ connected: false });
      heartbeats.update("r", { isAlive: true });
      expect(writes.at(-1)).toMatchObject({ connected: true });
      heartbeats.robotDeleted("r");
      expect(clock.pendingTimers).toBe(0);
    });

    it("do not end while the broker is out of reach, and every robot gets time afterwards (F19)", async () => {
      const clock = createVirtualClock();
      const writes: HeartbeatStatus[] = [];
      let isListening = true;
      const heartbeats = new Heartbeats({
        clock,
        statusOf: () => ({ connected: true }),
        isListening: () => isListening,
        write: (_, status) => writes.push(status) > 0,
      });
      heartbeats.watch("r");
      isListening = false;
      await clock.advance(10 * silenceTimeoutMs);
      isListening = true;
      heartbeats.listening();
      await clock.advance(silenceTimeoutMs - 1);
      expect(writes).toEqual([]);
      await clock.advance(silenceTimeoutMs);
      expect(writes).toEqual([{ connected: false }]);
    });
  });
});
