import { expect, it } from "vitest";
import { countRemaining } from "./count-remaining.ts";
import { SharedTurns } from "./shared-turns.ts";

it("counts a few parts in a turn, whatever the number of objects", async () => {
  const perTurn: number[] = [];
  let parts = 0;
  const endTurn = (): void => {
    perTurn.push(parts);
    parts = 0;
    if (perTurn.length < 100) setImmediate(endTurn);
  };
  setImmediate(endTurn);
  const countAfter = function* (): Generator<number> {
    for (let part = 0; part < 20; part++) {
      parts += 1;
      yield 5_000;
    }
    yield -7;
  };
  expect(await countRemaining({ turns: new SharedTurns(), request: {} }, { countAfter }, "/p/", "/p/a")).toBe(99_993);
  expect(Math.max(parts, ...perTurn)).toBeLessThanOrEqual(5);
});

it("stops counting if the client has disconnected", async () => {
  const gone = new AbortController();
  let parts = 0;
  const countAfter = function* (): Generator<number> {
    while (parts < 1_000) {
      parts += 1;
      if (parts === 10) gone.abort(new Error("the client disconnected"));
      yield 1;
    }
  };
  const call = { turns: new SharedTurns(), request: { signal: gone.signal } };
  await expect(countRemaining(call, { countAfter }, "/p/", "/p/a")).rejects.toThrow("the client disconnected");
  expect(parts).toBeLessThanOrEqual(15);
});
