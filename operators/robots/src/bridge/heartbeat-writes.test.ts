import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Transport } from "@keelson/api-machinery/transport";
import { createClient } from "@keelson/client";
import { describe, expect, it } from "vitest";
import { HeartbeatWrites } from "./heartbeat-writes.ts";
import { changeDelayMs } from "./heartbeats.ts";
import { KeyedQueue } from "./keyed-queue.ts";

interface Response {
  readonly status: number;
  readonly body: unknown;
}

const failure = (code: number, reason: string): Response => ({
  status: code,
  body: { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message: reason },
});

function setUp(respond: (bootId: string) => Response | undefined) {
  const clock = createVirtualClock();
  const boots: string[] = [];
  const transport: Transport = {
    request: async ({ body }) => {
      const [, bootId = ""] = /"bootId":"(\w+)"/.exec(JSON.stringify(body)) ?? [];
      boots.push(bootId);
      return { headers: {}, ...(respond(bootId) ?? { status: 200, body }) };
    },
    watch: () => Promise.reject(new Error("not supported")),
    close: async () => {},
  };
  const client = createClient({ transport, fieldManager: "test" });
  const queue = new KeyedQueue({ maxConcurrent: 1, maxPending: 10, onError: () => {} });
  return {
    clock,
    boots,
    queue,
    writes: new HeartbeatWrites({ client, clock, namespace: "robots", fieldManager: "test", queue }),
  };
}

describe("HeartbeatWrites", () => {
  it("repeats a write that failed", async () => {
    let isAway = true;
    const { clock, boots, queue, writes } = setUp(() => (isAway ? failure(403, "Forbidden") : undefined));
    expect(writes.write("r", { bootId: "a" })).toBe(true);
    await expect.poll(() => queue.size).toBe(0);
    expect(boots).toEqual(["a"]);
    await clock.advance(changeDelayMs);
    await expect.poll(() => queue.size).toBe(0);
    isAway = false;
    await clock.advance(changeDelayMs);
    await expect.poll(() => queue.size).toBe(0);
    expect([boots, clock.pendingTimers]).toEqual([["a", "a", "a"], 0]);
  });

  it("does not repeat a write whose successor waits or was stored", async () => {
    const { clock, boots, queue, writes } = setUp((bootId) => (bootId === "a" ? failure(403, "Forbidden") : undefined));
    writes.write("r", { bootId: "a" });
    await expect.poll(() => queue.size).toBe(0);
    writes.write("r", { bootId: "b" });
    await expect.poll(() => boots).toEqual(["a", "b"]);
    await clock.advance(2 * changeDelayMs);
    await expect.poll(() => queue.size).toBe(0);
    expect([boots, clock.pendingTimers]).toEqual([["a", "b"], 0]);
  });

  it("does not repeat a write to a robot that was deleted, nor any after it was stopped", async () => {
    const { clock, boots, queue, writes } = setUp((bootId) =>
      bootId === "a" ? failure(404, "NotFound") : failure(403, "Forbidden"),
    );
    writes.write("r", { bootId: "a" });
    await expect.poll(() => queue.size).toBe(0);
    expect(clock.pendingTimers).toBe(0);
    writes.write("s", { bootId: "b" });
    writes.stop();
    await expect.poll(() => queue.size).toBe(0);
    await clock.advance(10 * changeDelayMs);
    expect([boots, clock.pendingTimers]).toEqual([["a", "b"], 0]);
  });
});
