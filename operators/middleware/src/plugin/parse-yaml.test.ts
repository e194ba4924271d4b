import { describe, expect, it } from "vitest";
import { parseYaml } from "./parse-yaml.ts";

describe("YAML of plugins", () => {
  it("is parsed as by the library, with the position of the first problem", () => {
    expect(parseYaml("a: {b: [1, x], c: 'y'}\nd: &e [2]\nf: *e\n")).toEqual({ a: { b: [1, "x"], c: "y" }, d: [2], f: [2] });
    expect(() => parseYaml("a: 1\nb: [\n")).toThrow(/at line \d+, column \d+$/);
    expect(() => parseYaml("a: 1\nb:\n  c: 1\n  c: 2\n")).toThrow("Map keys must be unique at line 4, column 3");
    expect(() => parseYaml(`a: &a [1]\nb: [${"*a, ".repeat(200)}]\n`)).toThrow("alias");
  });

  const budgetOf = (tokens: number) => {
    let left = tokens;
    return { token: () => (left -= 1) >= 0 };
  };

  it.each<[string, string, string]>([
    ["many tokens", `a: [${"1,".repeat(30_000)}1]`, "must have at most 10000 tokens"],
    ["many errors", `a: [${",".repeat(60_000)}]`, "must have at most 10000 tokens"],
    ["deep nesting", `a: ${"[".repeat(700)}${"]".repeat(700)}`, "nested at most 64 levels deep"],
  ])("is rejected in a check for %s, before it is parsed", (_, text, message) => {
    expect(() => parseYaml(text, budgetOf(40_000))).toThrow(message);
  });

  it("may have thousands of keys, and spends a budget over several texts", () => {
    const keys = Array.from({ length: 5_000 }, (_, index) => `k${index}: 1`).join("\n");
    expect(Object.keys(parseYaml(keys) as object)).toHaveLength(5_000);
    const budget = budgetOf(20);
    expect(parseYaml("a: 1", budget)).toEqual({ a: 1 });
    expect(() => parseYaml(keys, budget)).toThrow("the plugin takes too long to check");
  });
});
