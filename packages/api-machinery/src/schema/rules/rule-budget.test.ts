import { describe, expect, it } from "vitest";
import { estimateCost } from "../../cel/rule-cost.ts";
import { ruleBudgetCauses } from "./rule-budget.ts";
import type { Schema } from "../schema.ts";

const text = (maxLength: number): Schema => ({ type: "string", maxLength });
const list = (items: Schema, maxItems?: number): Schema => ({
  type: "array",
  items,
  ...(maxItems === undefined ? {} : { maxItems }),
});
const object = (properties: Record<string, Schema>): Schema => ({ type: "object", properties });

describe("the estimated cost of a rule", () => {
  const schema = object({
    n: { type: "integer" },
    s: text(10),
    t: text(100),
    l: list(text(10), 5),
    m: { type: "object", maxProperties: 3, additionalProperties: { type: "integer" } },
  });
  it.each([
    ["true", 0],
    ["self.n > 1", 3],
    // Four bytes a character, a tenth of the shorter side.
    ["self.s == self.t", 8],
    ["self.t.contains(self.s)", 164],
    ["self.s.startsWith('abc')", 3],
    ["self.t.matches('^a+$')", 43],
    ["has(self.s) && self.n == 1", 4],
    ["self.n > 1 ? self.s == 'a' : true", 6],
    ["'a' in self.l", 7],
    // Three per step and one in the end, plus the range and five times the body.
    ["self.l.all(x, x == 'a')", 28],
    ["self.l.exists(x, x == 'a')", 33],
    ["self.m.all(k, self.m[k] > 0)", 27],
    ["size(self.l) < 3", 4],
  ])("%s is %i", (rule, cost) => {
    expect(estimateCost(rule, schema)).toBe(cost);
  });

  it("is 0 for an expression that does not parse, which the compiler reports", () => {
    expect(estimateCost("self.", schema)).toBe(0);
  });
});

describe("the budget of rules", () => {
  const advice =
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared";
  const withRule = (schema: Schema, rule: string): Schema => ({ ...schema, "x-kubernetes-validations": [{ rule }] });

  it("rejects nested loops over unbounded lists", () => {
    const unbounded = object({ a: list({ type: "string" }), b: list({ type: "string" }) });
    const causes = ruleBudgetCauses(withRule(unbounded, "self.a.all(x, self.b.all(y, x != y))"), "s");
    expect(causes.map(({ field, message }) => `${field}: ${message}`)).toEqual([
      `s.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (${advice})`,
      "s.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
      `s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x (${advice})`,
    ]);
    const bounded = object({ a: list(text(30), 20), b: list(text(30), 20) });
    expect(ruleBudgetCauses(withRule(bounded, "self.a.all(x, self.b.all(y, x != y))"), "s")).toEqual([]);
  });

  it("multiplies a rule by the values that it is checked for", () => {
    const items = withRule(text(9000), "self.contains('abc')");
    expect(ruleBudgetCauses(object({ p: list(items, 2000) }), "s")).toEqual([]);
    expect(ruleBudgetCauses(object({ p: list(items, 3000) }), "s")[0]?.message).toBe(
      `Forbidden: estimated rule cost exceeds budget by factor of 1.080300x (${advice})`,
    );
  });

  it("adds up all rules of a schema", () => {
    const items = withRule(text(9000), "self.contains('abc')");
    const properties = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`p${index}`, list(items, 2000)]));
    const causes = ruleBudgetCauses(object(properties), "s");
    expect(causes.map(({ field }) => field)).toEqual([
      ...[0, 1, 2, 3].map((index) => `s.properties[p${index}].items.x-kubernetes-validations[0].rule`),
      "s",
    ]);
    expect(causes.at(-1)?.message).toContain("exceeds budget by factor of 5.8x");
  });
});
