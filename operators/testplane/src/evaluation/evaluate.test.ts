import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cut, evaluate, failureOf } from "./evaluate.ts";

const context = { scope: "s", known: () => undefined, now: 0, webhookTimeoutMs: 1_000 };
const has = (path: string, value: unknown) => ({ function: "FieldEquals", params: { path, value } });
const holds = (condition: Parameters<typeof evaluate>[0], ...objects: Record<string, unknown>[]): boolean =>
  evaluate(condition, objects, context).passed;

describe("a condition", () => {
  it("holds where all of allOf and one of anyOf do, and where there is none", () => {
    expect(holds(undefined, {})).toBe(true);
    expect(holds({ allOf: [has("a", 1), has("b", 2)] }, { a: 1, b: 2 })).toBe(true);
    expect(holds({ allOf: [has("a", 1), has("b", 2)] }, { a: 1 })).toBe(false);
    expect(holds({ anyOf: [has("a", 1), has("b", 2)] }, { b: 2 })).toBe(true);
    expect(holds({ anyOf: [has("a", 1), has("b", 2)] }, { c: 3 })).toBe(false);
    expect(holds({ allOf: [has("a", 1)], anyOf: [] }, { a: 1 })).toBe(true);
  });

  it("wants one object that fulfils the whole of it, and takes anyOf for any (regression 6)", () => {
    const condition = { allOf: [has("a", 1)], anyOf: [has("b", 1), has("b", 2)] };
    expect(holds(condition, { a: 1 }, { b: 2 })).toBe(false);
    expect(holds(condition, { a: 2, b: 1 }, { a: 1, b: 2 })).toBe(true);
  });

  it("on no object sees that there is none", () => {
    expect(holds({ allOf: [{ function: "ResourceNotExists" }] })).toBe(true);
    expect(holds({ allOf: [{ function: "ResourceExists" }] })).toBe(false);
  });

  it("asks each webhook once a turn, and not again while it is being asked (regressions 6 and 15)", () => {
    const condition = { allOf: [{ function: "F", webhook: "http://host/" }] };
    const object = { metadata: { name: "x", resourceVersion: "1" } };
    expect(evaluate(condition, [object], context)).toMatchObject({ passed: false, isPending: true, asks: [{ function: "F" }] });
    const asking = { ...context, known: () => ({ kind: "asking" as const, stateVersion: "1" }) };
    expect(evaluate(condition, [object], asking as never)).toMatchObject({ passed: false, isPending: true, asks: [] });
  });

  it("says what does not hold", () => {
    const { results } = evaluate({ allOf: [has("a", 1), has("b", 2)] }, [{ a: 1 }], context);
    expect(failureOf(results)).toBe("FieldEquals: b is absent, not 2");
  });
});

it("a text that is cut ends with whole characters (regression 19)", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 600 }), (text) => {
      const result = cut(text);
      expect([...result].length).toBeLessThanOrEqual(256);
      // Half a character would not survive UTF-8.
      expect(Buffer.from(result).toString()).toBe(result);
    }),
  );
  expect(cut("é".repeat(300))).toBe(`${"é".repeat(253)}...`);
});
