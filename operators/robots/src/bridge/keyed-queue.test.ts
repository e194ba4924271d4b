import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KeyedQueue } from "./keyed-queue.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("KeyedQueue", () => {
  it("runs all work, in order within a key and for at most `maxConcurrent` keys concurrently", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 40 }),
        fc.integer({ min: 1, max: 3 }),
        async (keys, maxConcurrent) => {
          const queue = new KeyedQueue({ maxConcurrent, maxPending: 100, onError: () => {} });
          const done = new Map<string, number[]>();
          const running = new Set<string>();
          keys.forEach((key, index) => {
            queue.push(key, async () => {
              expect(running.has(key)).toBe(false);
              running.add(key);
              expect(running.size).toBeLessThanOrEqual(maxConcurrent);
              await turn();
              running.delete(key);
              done.set(key, [...(done.get(key) ?? []), index]);
            });
          });
          await queue.close();
          for (const key of new Set(keys)) {
            expect(done.get(key)).toEqual(keys.flatMap((each, index) => (each === key ? [index] : [])));
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  it("rejects work beyond its bound and after it is closed", async () => {
    const queue = new KeyedQueue({ maxConcurrent: 1, maxPending: 2, onError: () => {} });
    expect(["a", "b", "c"].map((key) => queue.push(key, turn))).toEqual([true, true, false]);
    await queue.close();
    expect(queue.push("d", turn)).toBe(false);
  });

  it("bounds the work of each owner until it has ended, even if it fails", async () => {
    const queue = new KeyedQueue({ maxConcurrent: 9, maxPending: 9, onError: () => {} });
    const push = (name: string) => queue.push(name, () => Promise.reject(new Error("no")), { name, maxPending: 2 });
    expect([push("a"), push("a"), push("a"), push("b")]).toEqual([true, true, false, true]);
    while (queue.size > 0) await turn();
    expect([push("a"), push("a"), push("a")]).toEqual([true, true, false]);
    await queue.close();
  });

  it("reports failed work and continues", async () => {
    const failed: string[] = [];
    const queue = new KeyedQueue({
      maxConcurrent: 1,
      maxPending: 9,
      onError: (key) => failed.push(key),
    });
    let isDone = false;
    queue.push("a", () => Promise.reject(new Error("no")));
    queue.push("a", async () => void (isDone = true));
    await queue.close();
    expect([failed, isDone]).toEqual([["a"], true]);
  });
});
