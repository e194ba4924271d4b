import { describe, expect, it } from "vitest";
import * as yaml from "yaml";
import { yamlToJson } from "./yaml-program.ts";

const parse = (text: string): unknown => {
  const result = yamlToJson(yaml, text, { maxDepth: 20, maxValues: 1000 });
  return result.kind === "parsed" ? JSON.parse(result.json) : result;
};

describe("a YAML body", () => {
  it.each([
    ["yes", true],
    ["Off", false],
    ["y", true],
    ["true", true],
    ['"yes"', "yes"],
    ["yEs", "yEs"],
    ["0644", 420],
    ["-0644", -420],
    ["0o644", 420],
    ["089", 89],
    ["0b101", 5],
    ["1_000", 1000],
    ["0x1F", 31],
    ["1.5e3", 1500],
    ["2001-01-01", "2001-01-01"],
    ["1:30", "1:30"],
    ["~", null],
  ])("reads the plain scalar %s like kube-apiserver", (text, value) => {
    expect(parse(`a: ${text}`)).toEqual({ a: value });
  });

  it("reads a key that YAML 1.1 takes for a boolean as its JSON text", () => {
    expect(parse("on: 1")).toEqual({ true: 1 });
  });

  it("is the first of several documents", () => {
    expect(parse("---\na: 1\n---\na: [\n")).toEqual({ a: 1 });
  });

  it.each(["", "# comment only", "---", "null"])("is null if it is empty: %j", (text) => {
    expect(parse(text)).toBeNull();
  });

  it("reports an error of its first document", () => {
    expect(parse("a: [1")).toMatchObject({ kind: "invalid" });
  });
});
