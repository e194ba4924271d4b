import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test } from "vitest";
import { IdleCollection } from "./idle-collection.ts";

const mebibyte = 2 ** 20;

function start(heapMiB: number) {
  const clock = createVirtualClock();
  const process = { utilization: 0, heap: heapMiB * mebibyte, collections: 0 };
  const collection = new IdleCollection({
    clock,
    utilization: () => process.utilization,
    heapBytes: () => process.heap,
    collect: () => {
      process.collections += 1;
      process.heap = Math.max(process.heap * 0.6, 30 * mebibyte);
    },
  });
  return { process, collection, advance: (ms: number) => clock.advance(ms) };
}

test("an idle process collects twice after a burst, and not again", async () => {
  const { process, advance } = start(90);
  process.utilization = 0.5;
  await advance(20_000);
  expect(process.collections).toBe(0);
  process.utilization = 0.01;
  await advance(8_000);
  expect(process.collections).toBe(2);
  await advance(600_000);
  expect(process.collections).toBe(2);
});

test("a process collects again after its heap has grown", async () => {
  const { process, advance } = start(40);
  await advance(60_000);
  expect(process.collections).toBe(2);
  process.heap = 38 * mebibyte;
  await advance(60_000);
  expect(process.collections).toBe(2);
  process.heap = 100 * mebibyte;
  await advance(60_000);
  expect(process.collections).toBe(4);
});

test("nothing is collected after the stop", async () => {
  const { process, collection, advance } = start(90);
  collection.stop();
  await advance(60_000);
  expect(process.collections).toBe(0);
});
