import { describe, expect, test } from "vitest";
import type { Schema } from "../schema/schema.ts";
import { celCauses } from "../schema/rules/schema-expressions.ts";
import { compileExpression } from "./expression.ts";

const schema = (rule: string): Schema => ({
  type: "object",
  properties: { n: { type: "integer" }, s: { type: "string" } },
  "x-kubernetes-validations": [{ rule }],
});

describe("the error of a rule that does not compile", () => {
  test.each([
    [
      "self.s.size() >",
      16,
      "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
    ],
    ["self.", 6, "Syntax error: no viable alternative at input '.'"],
    ["self.missing > 1", 5, "undefined field 'missing'"],
    ["self.n == 'a'", 8, "found no matching overload for '_==_' applied to '(int, string)'"],
    ["!self.n", 1, "found no matching overload for '!_' applied to '(int)'"],
    ["self.s.startsWith(self.n)", 18, "found no matching overload for 'startsWith' applied to 'string.(int)'"],
    ["size(self.n) > 1", 5, "found no matching overload for 'size' applied to '(int)'"],
    ["self.s.matches('a') && other", 24, "undeclared reference to 'other' (in container '')"],
  ])("locates and names the fault of %s as cel-go does", (rule, column, message) => {
    const marker = `${".".repeat(column - 1)}^`;
    expect(celCauses(schema(rule), "spec").map(({ message: text }) => text)).toEqual([
      expect.stringMatching(/^Invalid value: \{"Rule":/),
    ]);
    expect(celCauses(schema(rule), "spec")[0]?.message).toContain(
      `compilation failed: ERROR: <input>:1:${column}: ${message}\n | ${rule}\n | ${marker}`,
    );
  });

  test("shows the line of an expression with several lines", () => {
    expect(compileExpression("true &&\n  missing", ["object"], "bool")).toBe(
      "compilation failed: ERROR: <input>:2:3: undeclared reference to 'missing' (in container '')\n |   missing\n | ..^",
    );
  });
});

test("a rule that uses oldSelf names the list whose items cannot be matched", () => {
  const items: Schema = { type: "integer", "x-kubernetes-validations": [{ rule: "self >= oldSelf" }] };
  const list = (type: "atomic" | "map"): Schema => ({
    type: "object",
    properties: { l: { type: "array", "x-kubernetes-list-type": type, items } },
  });
  expect(celCauses(list("atomic"), "spec")[0]?.message).toBe(
    'Invalid value: "self >= oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.properties[l]',
  );
  expect(celCauses(list("map"), "spec")).toEqual([]);
});

test("a rule without oldSelf cannot say whether it is optional", () => {
  const rule = (text: string): Schema => ({
    type: "integer",
    "x-kubernetes-validations": [{ rule: text, optionalOldSelf: false }],
  });
  expect(celCauses(rule("self > 1"), "spec").map(({ field }) => field)).toEqual([
    "spec.x-kubernetes-validations[0].optionalOldSelf",
  ]);
  expect(celCauses(rule("self > oldSelf"), "spec")).toEqual([]);
});

test("a rule may use an optional oldSelf", () => {
  const rule = { rule: "oldSelf.orValue(self) == self", optionalOldSelf: true };
  expect(celCauses({ type: "integer", "x-kubernetes-validations": [rule] }, "spec")).toEqual([]);
});
