import fc from "fast-check";
import { expect, test } from "vitest";
import { reconnectPauseMs } from "./agent-connection.ts";

test("reconnect pauses are random, from half a second to a limit that doubles up to 30 s", () => {
  expect([0, 1, 2, 3, 10, 1000].map((tries) => reconnectPauseMs(tries, () => 1))).toEqual([
    1000, 2000, 4000, 8000, 30_000, 30_000,
  ]);
  expect(reconnectPauseMs(9, () => 0)).toBe(500);
  fc.assert(
    fc.property(fc.nat(5000), fc.double({ min: 0, max: 1, noNaN: true }), (tries, random) => {
      const pause = reconnectPauseMs(tries, () => random);
      expect(pause >= 500 && pause <= 30_000).toBe(true);
    }),
  );
});
