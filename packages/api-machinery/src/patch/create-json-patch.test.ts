import fc from "fast-check";
import { expect, it } from "vitest";
import { createJsonPatch } from "./create-json-patch.ts";
import { jsonPatch } from "./json-patch.ts";

it("turns one value into the other", () => {
  const value = fc.jsonValue({ maxDepth: 4 });
  fc.assert(
    fc.property(fc.dictionary(fc.string(), value), fc.dictionary(fc.string(), value), (before, after) => {
      const [from, to] = [JSON.parse(JSON.stringify(before)), JSON.parse(JSON.stringify(after))] as const;
      expect(jsonPatch(from, createJsonPatch(from, to))).toEqual(to);
    }),
  );
});

it("changes only what differs, with escaped keys", () => {
  const before = { a: 1, "b/c": { "~": 1 }, list: [1, 2], gone: true };
  const after = { a: 1, "b/c": { "~": 2 }, list: [1, 3], added: undefined };
  expect(createJsonPatch(before, after)).toEqual([
    { op: "remove", path: "/gone" },
    { op: "replace", path: "/b~1c/~0", value: 2 },
    { op: "replace", path: "/list/1", value: 3 },
  ]);
  expect(createJsonPatch(before, structuredClone(before))).toEqual([]);
});
