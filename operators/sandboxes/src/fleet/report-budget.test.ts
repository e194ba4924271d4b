import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import { ReportBudget } from "./report-budget.ts";

const { signal } = new AbortController();

describe("the reports of agents", () => {
  it("are delayed only if those of an agent take too long together", async () => {
    const clock = createVirtualClock();
    const budget = new ReportBudget(clock).forAgent();
    // A tenth of the time: the clock stands still while a read waits.
    for (let count = 0; count < 100; count += 1) {
      await budget.read(() => clock.advance(10), signal);
      await clock.advance(90);
    }
    await budget.read(() => clock.advance(180), signal);
    let isRead = false;
    const next = budget.read(async () => void (isRead = true), signal);
    await clock.advance(300);
    expect(isRead).toBe(false);
    await clock.advance(100);
    await next;
    expect(isRead).toBe(true);
  });

  it("take a quarter of the time together, however many agents send them, one report of each in turn", async () => {
    const clock = createVirtualClock();
    const shared = new ReportBudget(clock);
    const ending = new AbortController();
    const order: number[] = [];
    const flood = async (agent: number): Promise<void> => {
      const budget = shared.forAgent();
      while (!ending.signal.aborted) {
        await budget.read(async () => {
          order.push(agent);
          budget.spend(50);
        }, ending.signal);
      }
    };
    const floods = [0, 1, 2, 3, 4].map((agent) => flood(agent).catch(() => undefined));
    await clock.advance(20_000);
    const spentMs = order.length * 50;
    expect(spentMs).toBeGreaterThan(4_500);
    expect(spentMs).toBeLessThan(5_300);
    expect(order.slice(-10).toSorted()).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    ending.abort();
    await clock.advance(1_000);
    await Promise.all(floods);
  });

  it("let others run between steps of at most 5 ms, whose time is not counted", async () => {
    const clock = createVirtualClock();
    let now = 0;
    const budget = new ReportBudget({ ...clock, monotonic: () => now }).forAgent();
    const pauses: boolean[] = [];
    await budget.read(async (pause) => {
      for (const ms of [4, 1, 4, 4]) {
        now += ms;
        // Others take much longer than the budget permits.
        const others = setImmediate(() => void (now += 1_000));
        const paused = pause();
        pauses.push(paused !== undefined);
        if (paused === undefined) clearImmediate(others);
        else await paused;
      }
    }, signal);
    expect(pauses).toEqual([false, true, false, true]);
    let isRead = false;
    await budget.read(async () => void (isRead = true), signal);
    expect(isRead).toBe(true);
  });
});
