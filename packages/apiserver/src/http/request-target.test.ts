import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitTarget } from "./request-target.ts";

describe("splitTarget", () => {
  it("parses every query as URLSearchParams does, and the first of repeated parameters wins", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "b", "é", "=", "&", "?", "%", "+", "%3D", "%C3%A9", "__proto__") });
    fc.assert(
      fc.property(text, (query) => {
        const expected = new Map([...new URLSearchParams(query)].reverse());
        expect(new Map(Object.entries(splitTarget(`/api?${query}`).query))).toEqual(expected);
      }),
    );
  });

  it.each([
    ["/api", "/api"],
    ["/api?", "/api"],
    ["?watch=1", "/"],
    ["https://host:1/api?watch=1", "/api"],
  ])("splits %s", (url, path) => {
    expect(splitTarget(url).path).toBe(path);
  });
});
