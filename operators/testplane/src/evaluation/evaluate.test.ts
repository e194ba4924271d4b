import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { truncate, evaluate, failureOf } from "./evaluate.ts";

const context = { scope: "s", webhookState: () => undefined, now: 0, podsOf: () => undefined, webhookTimeoutMs: 1_000 };
const has = (path: string, value: unknown) => ({ function: "FieldEquals", params: { path, value } });
const holds = (condition: Parameters<typeof evaluate>[0], ...objects: Record<string, unknown>[]): boolean =>
  evaluate(condition, objects, context).passed;

describe("a condition", () => {
  it("holds if all of allOf and one of anyOf hold, and if both are empty", () => {
    expect(holds(undefined, {})).toBe(true);
    expect(holds({ allOf: [has("a", 1), has("b", 2)] }, { a: 1, b: 2 })).toBe(true);
    expect(holds({ allOf: [has("a", 1), has("b", 2)] }, { a: 1 })).toBe(false);
    expect(holds({ anyOf: [has("a", 1), has("b", 2)] }, { b: 2 })).toBe(true);
    expect(holds({ anyOf: [has("a", 1), has("b", 2)] }, { c: 3 })).toBe(false);
    expect(holds({ allOf: [has("a", 1)], anyOf: [] }, { a: 1 })).toBe(true);
  });

  it("must be satisfied by a single object, and by any check of anyOf (regression 6)", () => {
    const condition = { allOf: [has("a", 1)], anyOf: [has("b", 1), has("b", 2)] };
    expect(holds(condition, { a: 1 }, { b: 2 })).toBe(false);
    expect(holds(condition, { a: 2, b: 1 }, { a: 1, b: 2 })).toBe(true);
  });

  it("without objects sees their absence", () => {
    expect(holds({ allOf: [{ function: "ResourceNotExists" }] })).toBe(true);
    expect(holds({ allOf: [{ function: "ResourceExists" }] })).toBe(false);
  });

  it("calls each webhook once, and not again while a call is in flight (regressions 6 and 15)", () => {
    const condition = { allOf: [{ function: "F", webhook: "http://host/" }] };
    const object = { metadata: { name: "x", resourceVersion: "1" } };
    expect(evaluate(condition, [object], context)).toMatchObject({
      passed: false,
      isPending: true,
      webhookCalls: [{ function: "F" }],
    });
    const asking = { ...context, webhookState: () => ({ kind: "pending" as const, stateVersion: "1" }) };
    expect(evaluate(condition, [object], asking as never)).toMatchObject({ passed: false, isPending: true, webhookCalls: [] });
  });

  it("summarizes the failed checks", () => {
    const { results } = evaluate({ allOf: [has("a", 1), has("b", 2)] }, [{ a: 1 }], context);
    expect(failureOf(results)).toBe("FieldEquals: b is absent, not 2");
  });
});

it("truncates at a character boundary (regression 19)", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 2_400 }), (text) => {
      const result = truncate(text);
      expect([...result].length).toBeLessThanOrEqual(1024);
      // A lone surrogate would not survive UTF-8.
      expect(Buffer.from(result).toString()).toBe(result);
    }),
  );
  expect(truncate("é".repeat(1_100))).toBe(`${"é".repeat(1_021)}...`);
});
