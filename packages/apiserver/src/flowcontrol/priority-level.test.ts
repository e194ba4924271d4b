import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import { dealHand, PriorityLevel, type Seat } from "./priority-level.ts";

const queuing = { queues: 16, handSize: 4, queueLengthLimit: 50 };

function seatOf(result: Seat | string): Seat {
  if (typeof result === "string") throw new TypeError(`rejected: ${result}`);
  return result;
}

describe("a priority level", () => {
  it("executes as many requests as it has seats and queues the others", async () => {
    const level = new PriorityLevel(createVirtualClock(), { seats: 2, queuing }, 1_000);
    const [first] = await Promise.all([level.acquire("a", 1), level.acquire("a", 1)]);
    let isAdmitted = false;
    const third = level.acquire("a", 1).then((seat) => {
      isAdmitted = true;
      return seat;
    });
    await Promise.resolve();
    expect([level.occupied, level.waiting, isAdmitted]).toEqual([2, 1, false]);
    seatOf(first ?? "").release();
    seatOf(first ?? "").release();
    seatOf(await third).release();
    expect([level.occupied, level.waiting]).toEqual([1, 0]);
  });

  it("caps a request that is wider than the level", async () => {
    const level = new PriorityLevel(createVirtualClock(), { seats: 3, queuing }, 1_000);
    seatOf(await level.acquire("a", 10));
    expect(level.occupied).toBe(3);
  });

  it("shares its seats fairly between a flow with many requests and one with few", async () => {
    const clock = createVirtualClock();
    const level = new PriorityLevel(clock, { seats: 1, queuing: { queues: 64, handSize: 1, queueLengthLimit: 50 } }, 60_000);
    const order: string[] = [];
    const first = seatOf(await level.acquire("busy", 1));
    const send = (flow: string): Promise<void> =>
      level.acquire(flow, 1).then(async (seat) => {
        order.push(flow);
        await clock.advance(10);
        seatOf(seat).release();
      });
    const busy = Array.from({ length: 40 }, () => send("busy"));
    const quiet = send("quiet");
    first.release();
    await Promise.all([...busy, quiet]);
    expect(order.indexOf("quiet")).toBeLessThan(2);
    expect(order).toHaveLength(41);
  });

  it("rejects a request when its queue is full", async () => {
    const level = new PriorityLevel(
      createVirtualClock(),
      { seats: 1, queuing: { ...queuing, handSize: 1, queueLengthLimit: 2 } },
      1_000,
    );
    await level.acquire("a", 1);
    void level.acquire("a", 1);
    void level.acquire("a", 1);
    expect(await level.acquire("a", 1)).toBe("queue-full");
  });

  it("rejects a request that has waited too long, and one whose client has left", async () => {
    const clock = createVirtualClock();
    const level = new PriorityLevel(clock, { seats: 1, queuing }, 1_000);
    await level.acquire("a", 1);
    const client = new AbortController();
    const late = level.acquire("a", 1);
    const left = level.acquire("b", 1, () => client.signal);
    client.abort();
    await clock.advance(1_000);
    expect(await Promise.all([late, left])).toEqual(["time-out", "cancelled"]);
    expect(level.waiting).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  it("rejects instead of queuing if it has no queues", async () => {
    const level = new PriorityLevel(createVirtualClock(), { seats: 1, queuing: undefined }, 1_000);
    await level.acquire("a", 1);
    expect(await level.acquire("a", 1)).toBe("concurrency-limit");
  });

  it("admits queued requests when its limit is raised", async () => {
    const level = new PriorityLevel(createVirtualClock(), { seats: 1, queuing }, 1_000);
    await level.acquire("a", 1);
    const second = level.acquire("a", 1);
    level.configure({ seats: 2, queuing });
    seatOf(await second);
    expect(level.occupied).toBe(2);
  });
});

describe("dealHand", () => {
  it("deals distinct queues, the same for every request of a flow", () => {
    for (const flow of ["a", "b", "system:serviceaccount:ns:robot"]) {
      const hand = dealHand(flow, 128, 6);
      expect(new Set(hand).size).toBe(6);
      expect(hand.every((index) => index >= 0 && index < 128)).toBe(true);
      expect(dealHand(flow, 128, 6)).toEqual(hand);
    }
    expect(dealHand("a", 2, 6).sort()).toEqual([0, 1]);
  });
});
