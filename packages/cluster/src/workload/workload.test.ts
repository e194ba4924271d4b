import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { resolveIntOrPercent } from "./int-or-percent.ts";
import { workloadSelector } from "./ownership.ts";
import { generatedPrefix } from "./pod-from-template.ts";
import { hashOf, isSameTemplate } from "./template-hash.ts";

describe("resolveIntOrPercent", () => {
  test("resolves numbers and percentages in the given direction", () => {
    expect(resolveIntOrPercent(3, 10, "up")).toBe(3);
    expect(resolveIntOrPercent("25%", 10, "up")).toBe(3);
    expect(resolveIntOrPercent("25%", 10, "down")).toBe(2);
    expect(resolveIntOrPercent("29%", 100, "up")).toBe(29);
    expect(resolveIntOrPercent(undefined, 10, "up")).toBe(0);
    expect(resolveIntOrPercent("x", 10, "up")).toBe(0);
  });
});

describe("a template's hash", () => {
  const template = { metadata: { labels: { a: "1" } }, spec: { containers: [{ name: "c", image: "i" }] } };

  test("depends on the collision count, not on the order of keys", () => {
    const other = { spec: { containers: [{ image: "i", name: "c" }] }, metadata: { labels: { a: "1" } } };
    expect(hashOf(other)).toBe(hashOf(template));
    expect(hashOf(template, 1)).not.toBe(hashOf(template));
    // Names of existing ReplicaSets depend on this value: it must never change.
    expect(hashOf(template)).toMatchInlineSnapshot(`"789db56478"`);
  });

  test("is valid in a name and a label", () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => /^[bcdfghjklmnpqrstvwxz2456789]{1,10}$/.test(hashOf(value))));
  });

  test("ignores the hash label and empty maps", () => {
    const labelled = { ...template, metadata: { labels: { a: "1", "pod-template-hash": "x" }, annotations: {} } };
    expect(isSameTemplate(template, labelled)).toBe(true);
    expect(isSameTemplate(template, { ...template, metadata: { labels: { a: "2" } } })).toBe(false);
  });
});

describe("a workload's selector", () => {
  test("is compiled once for an object from a cache", () => {
    const selector = Object.freeze({ matchLabels: Object.freeze({ app: "web" }) });
    expect(workloadSelector(selector)).toBe(workloadSelector(selector));
    expect(workloadSelector(selector).matches({ app: "web" })).toBe(true);
  });

  test("is compiled again for an object that may have changed", () => {
    const selector = { matchLabels: { app: "web" } };
    expect(workloadSelector(selector).matches({ app: "web" })).toBe(true);
    selector.matchLabels.app = "db";
    expect(workloadSelector(selector).matches({ app: "web" })).toBe(false);
  });

  test("selects nothing if it is empty", () => {
    const empty = Object.freeze({});
    for (const selector of [empty, empty, undefined]) expect(workloadSelector(selector).matches({ app: "web" })).toBe(false);
  });
});

test("generated Pod names are truncated to fit a host name", () => {
  expect(generatedPrefix("web")).toBe("web-");
  expect(generatedPrefix("x".repeat(80))).toHaveLength(58);
});
