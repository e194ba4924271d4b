import fc from "fast-check";
import { expect, it } from "vitest";
import { robotOf } from "../testing/objects.ts";
import { affinityScore } from "./affinity.ts";

const robot = robotOf("a", { spec: { labels: { arm: "new", speed: "2" } } });
const holds = { lTarget: "${label.arm}", rTarget: "new" };
const fails = { lTarget: "${label.speed}", operand: ">", rTarget: "5" } as const;

it("weighs the preferences that hold against all of them", () => {
  expect(affinityScore([], robot)).toBe(0);
  expect(affinityScore([holds, fails], robot)).toBe(0.5);
  expect(
    affinityScore(
      [
        { ...holds, weight: 100 },
        { ...fails, weight: 25 },
      ],
      robot,
    ),
  ).toBe(0.8);
  expect(
    affinityScore(
      [
        { ...holds, weight: -100 },
        { ...fails, weight: -25 },
      ],
      robot,
    ),
  ).toBe(-0.8);
  expect(affinityScore([{ ...holds, weight: 0 }], robot)).toBe(0);
  expect(affinityScore([{ lTarget: "${attr.none}", rTarget: "x", weight: 100 }], robot)).toBe(0);
});

it("is between -1 and 1", () => {
  const affinity = fc.record({
    lTarget: fc.constantFrom("${label.arm}", "x"),
    rTarget: fc.constantFrom("new", "x", "y"),
    weight: fc.integer({ min: -100, max: 100 }),
  });
  fc.assert(
    fc.property(fc.array(affinity), (affinities) => {
      const score = affinityScore(affinities, robot);
      expect(score).toBeGreaterThanOrEqual(-1);
      expect(score).toBeLessThanOrEqual(1);
    }),
  );
});
