import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { lowPriority, WorkQueue, type WorkQueueOptions } from "./work-queue.ts";

let clock: VirtualClock;
beforeEach(() => {
  clock = createVirtualClock();
});

function make(options: Partial<WorkQueueOptions<string>> = {}): WorkQueue<string> {
  return new WorkQueue({ clock, idOf: (value) => value, retryRate: undefined, ...options });
}

function drain(queue: WorkQueue<string>): string[] {
  const values: string[] = [];
  for (let item = queue.take(); item !== undefined; item = queue.take()) {
    values.push(item.value);
    queue.done(item.value);
  }
  return values;
}

describe("work queue", () => {
  test("hands out by priority, then in the order in which items were added", () => {
    const queue = make();
    queue.add("low", { priority: lowPriority });
    for (const value of ["a", "b", "c"]) queue.add(value);
    queue.add("high", { priority: 10 });
    expect(drain(queue)).toEqual(["high", "a", "b", "c", "low"]);
  });

  test("lets groups take turns within a priority", () => {
    const queue = make({ groupOf: (value) => value.charAt(0) });
    for (const value of ["a1", "a2", "a3", "b1", "c1", "b2"]) queue.add(value);
    queue.add("a4", { priority: 1 });
    expect(drain(queue)).toEqual(["a4", "a1", "b1", "c1", "a2", "b2", "a3"]);
  });

  test("has an item once, with the highest priority it was added with", () => {
    const queue = make();
    queue.add("a", { priority: 5 });
    queue.add("b", { priority: 6 });
    queue.add("a", { priority: 7 });
    queue.add("a", { priority: 1 });
    expect(queue.length).toBe(2);
    expect(queue.take()).toEqual({ value: "a", priority: 7 });
  });

  test("puts an item whose priority is raised behind those that have it already", () => {
    const queue = make();
    for (const value of ["a", "b", "c"]) queue.add(value, { priority: value === "a" ? 0 : 1 });
    queue.add("a", { priority: 1 });
    expect(drain(queue)).toEqual(["b", "c", "a"]);
  });

  test("returns an item that was added during processing only after it is done", async () => {
    const queue = make();
    queue.add("a");
    queue.add("b");
    expect(queue.take()?.value).toBe("a");
    queue.add("a");
    expect(drain(queue)).toEqual(["b"]);
    expect(queue.length).toBe(1);
    const next = queue.get();
    queue.done("a");
    expect((await next)?.value).toBe("a");
  });

  test("a held item does not block the ones behind it", () => {
    const queue = make();
    queue.add("a", { priority: 9 });
    queue.take();
    queue.add("a", { priority: 9 });
    queue.add("b");
    expect(queue.take()?.value).toBe("b");
  });

  test("keeps the earlier time of an item that waits, and does not count it as ready", async () => {
    const queue = make();
    queue.add("a", { afterMs: 100 });
    queue.add("a", { afterMs: 50 });
    queue.add("a", { afterMs: 200 });
    expect(queue.length).toBe(0);
    await clock.advance(49);
    expect(queue.take()).toBeUndefined();
    await clock.advance(1);
    expect(drain(queue)).toEqual(["a"]);
    await clock.advance(1000);
    expect(queue.length).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  test("orders waiting items by when they become ready, not by when they were added", async () => {
    const queue = make();
    queue.add("late", { afterMs: 20 });
    queue.add("early", { afterMs: 10 });
    await clock.advance(30);
    expect(drain(queue)).toEqual(["early", "late"]);
  });

  test("uses one timer for any number of waiting items", () => {
    const queue = make();
    for (let index = 0; index < 1000; index++) queue.add(String(index), { afterMs: 1000 - (index % 500) });
    expect(clock.pendingTimers).toBe(1);
  });

  test("takes the shorter of backoff and delay", async () => {
    const queue = make({ baseDelayMs: 100 });
    queue.add("a", { rateLimited: true, afterMs: 10 });
    queue.add("b", { rateLimited: true, afterMs: 1000 });
    await clock.advance(10);
    expect(drain(queue)).toEqual(["a"]);
    await clock.advance(90);
    expect(drain(queue)).toEqual(["b"]);
  });

  test("doubles an item's backoff from 5 ms to 1000 s, and resets it when the item is forgotten", async () => {
    const queue = make();
    const delays: number[] = [];
    for (let attempt = 0; attempt < 20; attempt++) {
      const from = clock.monotonic();
      queue.add("a", { rateLimited: true });
      await clock.advance(1_000_000);
      delays.push((queue.take() === undefined ? Number.NaN : 0) + from);
      queue.done("a");
    }
    expect(delays).not.toContain(Number.NaN);
    const due = async (): Promise<number> => {
      const got = queue.get().then(() => clock.monotonic());
      const from = clock.monotonic();
      queue.add("a", { rateLimited: true });
      await clock.advance(1_000_000);
      const at = await got;
      queue.done("a");
      return at - from;
    };
    expect(await due()).toBe(1_000_000);
    queue.forget("a");
    const seen: number[] = [];
    for (let attempt = 0; attempt < 5; attempt++) seen.push(await due());
    expect(seen).toEqual([5, 10, 20, 40, 80]);
  });

  test("a trigger during the backoff runs the item and does not lengthen the next delay", async () => {
    const queue = make({ baseDelayMs: 1000 });
    queue.add("a", { rateLimited: true });
    for (let trigger = 0; trigger < 10; trigger++) {
      queue.add("a");
      expect(queue.take()?.value).toBe("a");
      queue.add("a", { rateLimited: true });
      queue.done("a");
    }
    expect(queue.failuresOf("a")).toBe(1);
    await clock.advance(999);
    expect(queue.take()).toBeUndefined();
    await clock.advance(1);
    expect(queue.take()?.value).toBe("a");
    queue.add("a", { rateLimited: true });
    expect(queue.failuresOf("a")).toBe(2);
  });

  test("with hold, a trigger during the backoff waits for its end", async () => {
    const queue = make({ baseDelayMs: 1000, triggerDuringBackoff: "hold" });
    queue.add("a");
    queue.take();
    queue.add("a");
    queue.add("a", { rateLimited: true });
    queue.done("a");
    queue.add("a");
    expect(queue.take()).toBeUndefined();
    await clock.advance(1000);
    expect(queue.take()?.value).toBe("a");
  });

  test("retries of all items together pass at 10 a second after a burst of 100", async () => {
    const queue = new WorkQueue<string>({ clock, idOf: (value) => value });
    for (let index = 0; index < 130; index++) queue.add(String(index), { rateLimited: true });
    await clock.advance(99);
    expect(drain(queue).length).toBe(100);
    await clock.advance(901);
    expect(drain(queue).length).toBe(10);
    await clock.advance(2000);
    expect(drain(queue).length).toBe(20);
  });

  test("serves waiting getters in order", async () => {
    const queue = make();
    const got: string[] = [];
    const waiting = [1, 2].map((who) => queue.get().then((item) => got.push(`${who}${item?.value}`)));
    queue.add("a");
    queue.add("b");
    await Promise.all(waiting);
    expect(got).toEqual(["1a", "2b"]);
  });

  test("returns undefined after shutdown, drops added items, and leaves no timer", async () => {
    const queue = make();
    queue.add("a", { afterMs: 10 });
    const waiting = queue.get();
    queue.shutDown();
    expect(await waiting).toBeUndefined();
    queue.add("b");
    expect(await queue.get()).toBeUndefined();
    expect(clock.pendingTimers).toBe(0);
  });

  test("items in progress at the shutdown stay in progress until they are done", () => {
    const queue = make();
    queue.add("a");
    queue.add("b");
    const item = queue.take();
    queue.add("a");
    queue.shutDown();
    expect([item?.value, queue.inProgress, queue.length, queue.has("b")]).toEqual(["a", 1, 0, false]);
    queue.done("a");
    expect([queue.inProgress, queue.has("a")]).toEqual([0, false]);
  });

  test("never hands out an item concurrently, loses none, and reports its depth correctly for any calls", async () => {
    const command = fc.oneof(
      fc.record({
        kind: fc.constant("add" as const),
        value: fc.nat(6).map(String),
        priority: fc.constantFrom(lowPriority, 0, 5),
        afterMs: fc.constantFrom(0, 0, 3, 50),
        rateLimited: fc.boolean(),
      }),
      fc.record({ kind: fc.constant("take" as const) }),
      fc.record({ kind: fc.constant("done" as const), nth: fc.nat(6) }),
      fc.record({ kind: fc.constant("forget" as const), value: fc.nat(6).map(String) }),
      fc.record({ kind: fc.constant("advance" as const), ms: fc.constantFrom(1, 4, 60) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(command, { maxLength: 80 }),
        fc.constantFrom("run" as const, "hold" as const),
        async (commands, mode) => {
          clock = createVirtualClock();
          let depth = 0;
          const metrics = {
            added: () => {},
            depthChanged: (_: number, by: number) => void (depth += by),
            waited: () => {},
            worked: () => {},
            retried: () => {},
          };
          const queue = make({ triggerDuringBackoff: mode, metrics });
          const held: string[] = [];
          const owed = new Set<string>();
          for (const step of commands) {
            if (step.kind === "add") {
              queue.add(step.value, step);
              owed.add(step.value);
            } else if (step.kind === "take") {
              const item = queue.take();
              if (item === undefined) continue;
              if (held.includes(item.value)) throw new Error(`${item.value} was handed out twice`);
              if (!owed.delete(item.value)) throw new Error(`${item.value} was handed out without being added`);
              held.push(item.value);
            } else if (step.kind === "done") {
              const [value] = held.splice(step.nth, 1);
              if (value !== undefined) queue.done(value);
            } else if (step.kind === "forget") queue.forget(step.value);
            else await clock.advance(step.ms);
            expect(depth).toBe(queue.length);
          }
          for (const value of held) queue.done(value);
          await clock.advance(2_000_000);
          expect(new Set(drain(queue))).toEqual(owed);
          expect(depth).toBe(0);
        },
      ),
      { numRuns: 300 },
    );
  });
});
