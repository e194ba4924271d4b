import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test } from "vitest";
import { BinaryHeap, type HeapElement } from "./binary-heap.ts";
import { WorkQueue } from "./work-queue.ts";

interface Item extends HeapElement {
  readonly order: number;
}

/** Comparisons of one push, one pop of the first and one removal from the middle, in a heap of `size` elements. */
function comparisons(size: number): { push: number; pop: number; remove: number } {
  let steps = 0;
  const heap = new BinaryHeap<Item>((a, b) => {
    steps++;
    return a.order < b.order;
  });
  const items = Array.from({ length: size }, (_, order): Item => ({ order, heapIndex: -1 }));
  for (const item of items) heap.push(item);
  const count = (act: () => void): number => {
    steps = 0;
    act();
    return steps;
  };
  return {
    push: count(() => heap.push({ order: size, heapIndex: -1 })),
    pop: count(() => heap.pop()),
    remove: count(() => heap.remove(items[size >> 1] as Item)),
  };
}

test("a heap of a hundred thousand takes no more than two comparisons a level", () => {
  const levels = Math.ceil(Math.log2(100_000));
  const { push, pop, remove } = comparisons(100_000);
  // Items added last stay at the end of the heap.
  expect(push).toBe(1);
  expect(pop).toBeLessThanOrEqual(2 * levels + 1);
  expect(remove).toBeLessThanOrEqual(2 * levels + 2);
});

test("add, take and done ask for as many ids, times and timers whatever the backlog", () => {
  const steps = (backlog: number): Record<string, number> => {
    const clock = createVirtualClock();
    const counts = { id: 0, time: 0, timers: 0 };
    const queue = new WorkQueue<string>({
      clock: {
        now: () => clock.now(),
        monotonic: () => (counts.time++, clock.monotonic()),
        setTimer: (...timer) => (counts.timers++, clock.setTimer(...timer)),
      },
      idOf: (value) => (counts.id++, value),
    });
    for (let index = 0; index < backlog; index++) {
      if (index % 2 === 0) queue.add(`ready-${index}`);
      else queue.add(`later-${index}`, { afterMs: 1_000 + index });
    }
    Object.assign(counts, { id: 0, time: 0, timers: 0 });
    queue.add("item", { priority: 1 });
    queue.add("item", { priority: 2 });
    queue.add("item", { afterMs: 1 });
    queue.add("another", { afterMs: backlog + 5_000 });
    expect(queue.take()?.value).toBe("item");
    queue.add("item");
    queue.done("item");
    queue.add("later-1", { priority: 3 });
    expect(queue.take()?.value).toBe("later-1");
    queue.done("later-1");
    expect(queue.length).toBe(backlog / 2 + 1);
    queue.shutDown();
    return counts;
  };
  expect(steps(100_000)).toEqual(steps(2));
});
