import { describe, expect, it } from "vitest";
import { compileExpression } from "./expression.ts";

const faultOf = (expression: string): unknown => {
  const compiled = compileExpression(expression, ["object"], "bool");
  return typeof compiled === "string" ? compiled : undefined;
};

describe("an expression on untyped objects", () => {
  it.each([
    ["object.name.startsWith(1)", "startsWith", "int"],
    ["object.names.exists(name, name.contains(1.5))", "contains", "double"],
    ["object.name == 'a' || object.name.substring('b') == 'c'", "substring", "string"],
  ])("calls no method with arguments that no type accepts: %s", (expression, name, type) => {
    const column = expression.indexOf(`${name}(`) + name.length + 1;
    expect(faultOf(expression)).toContain(
      `compilation failed: ERROR: <input>:1:${column}: found no matching overload for '${name}' applied to 'dyn.(${type})'`,
    );
  });

  it.each([
    "object.name.startsWith('a')",
    "object.name.startsWith(object.prefix)",
    "object.list.indexOf(1) == 0",
    "object.range.containsIP(ip('10.0.0.1'))",
    "object.amount.isGreaterThan(quantity('1'))",
  ])("calls methods of any type: %s", (expression) => {
    expect(faultOf(expression)).toBeUndefined();
  });

  it.each(["object.spec.paused", "object.metadata.labels['paused']"])("is not a condition by itself: %s", (expression) => {
    expect(faultOf(expression)).toBe("must evaluate to bool but got dyn");
    expect(faultOf(`${expression} == true`)).toBeUndefined();
  });
});
