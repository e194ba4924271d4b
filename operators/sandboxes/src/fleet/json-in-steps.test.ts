import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseJsonInSteps } from "./json-in-steps.ts";

const noPause = (): undefined => undefined;

/** The value of a text, and the number of steps. */
async function stepsOf(text: string): Promise<{ readonly count: number; readonly value: unknown }> {
  let count = 0;
  const value = await parseJsonInSteps(text, () => {
    count += 1;
    return undefined;
  });
  return { count, value };
}

describe("JSON in steps", () => {
  it.each([
    ["a long list of short values", JSON.stringify(Array.from({ length: 20_000 }, (_, index) => index))],
    [
      "a long object",
      JSON.stringify(Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`k${index}`, `v,"${index}`]))),
    ],
    ["long values in a list", JSON.stringify([[1, "x".repeat(40_000)], { a: "[{".repeat(30_000) }, 3, "y".repeat(40_000), 4])],
    [
      "a report",
      JSON.stringify({ a: 1, list: Array.from({ length: 2_000 }, (_, index) => ({ index, text: `\\"${index}"` })), z: [] }),
    ],
    ["white space", ` {\n "a" : [ ${"1 , ".repeat(19_000)} 2 ] ,\t"b" : {} } `],
  ])("has the value of JSON.parse for %s", async (_, text) => {
    const { count, value } = await stepsOf(text);
    expect(value).toEqual(JSON.parse(text));
    expect(count).toBeGreaterThan(text.length / 32 / 1024 / 2);
  });

  it.each([
    ["too many elements", `[${"{},".repeat(20_000)}{}]`],
    ["deep nesting", "[".repeat(100_000) + "]".repeat(100_000)],
    ["a list that does not end", `["${"x".repeat(40_000)}",${"1,".repeat(9_000)}`],
    ["a missing last element", `["${"x".repeat(40_000)}",]`],
    ["a missing element", `["${"x".repeat(40_000)}",,1]`],
    ["other brackets", `["${"x".repeat(40_000)}",1}`],
    ["a bracket too many", `["${"x".repeat(40_000)}"],[1]`],
    ["a string that does not end", `["${"x".repeat(100_000)}]`],
    ["a string that is too long", JSON.stringify(["x".repeat((1 << 20) + 1)])],
    ["a long number", "1".repeat(100_000)],
    ["a member without a name", `{"a":1,${" ".repeat(40_000)}["${"x".repeat(40_000)}"]}`],
  ])("rejects %s", async (_, text) => {
    expect(await parseJsonInSteps(text, noPause)).toBeUndefined();
  });

  it("sets no prototype", async () => {
    const value = await parseJsonInSteps(`{"__proto__":{"a":["${"x".repeat(40_000)}"]}}`, noPause);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value as object)).toEqual(["__proto__"]);
  });

  it("has the value of JSON.parse at every depth", async () => {
    await fc.assert(
      fc.asyncProperty(fc.json({ maxDepth: 4 }), fc.nat(3), async (json, depth) => {
        let text = `[${json},"${"p".repeat(33_000)}",${json}]`;
        for (let count = 0; count < depth; count += 1)
          text = count % 2 === 0 ? `{"a":${text},"b":${json}}` : `[${json},${text}]`;
        expect(await parseJsonInSteps(text, noPause)).toEqual(JSON.parse(text));
      }),
    );
  });
});
