import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { SharedTurns } from "./shared-turns.ts";

/** Counts in which turn each of the reads continues. */
async function turnsOf(reads: readonly (Promise<void> | undefined)[]): Promise<number[]> {
  let turn = 0;
  let isDone = false;
  const tick = (): void => {
    turn += 1;
    if (!isDone) setImmediate(tick);
  };
  setImmediate(tick);
  const found = await Promise.all(
    reads.map(async (read) => {
      if (read === undefined) return 0;
      await read;
      return turn;
    }),
  );
  isDone = true;
  await nextTurn();
  return found;
}

test("reads continue in the order in which they waited, one in each turn of the event loop", async () => {
  const turns = new SharedTurns();
  const found = await turnsOf(Array.from({ length: 50 }, () => turns.next()));
  expect(new Set(found).size).toBe(50);
  expect(found).toEqual(found.toSorted((a, b) => a - b));
});

test("few reads begin immediately, many wait for their turn", async () => {
  const turns = new SharedTurns();
  const first = Array.from({ length: 50 }, () => turns.enter());
  expect(first.map((read) => read === undefined)).toEqual([...Array<boolean>(4).fill(true), ...Array<boolean>(46).fill(false)]);
  expect(new Set(await turnsOf(first.slice(4))).size).toBe(46);
  await nextTurn();
  expect(turns.enter()).toBeUndefined();
});

test("a new read is not delayed by those that continue", async () => {
  const turns = new SharedTurns();
  const waiting = Array.from({ length: 50 }, () => turns.next());
  expect(turns.enter()).toBeUndefined();
  await Promise.all(waiting);
});
