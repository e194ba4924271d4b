import { expect, it } from "vitest";
import { parseFileOperation } from "./file-requests.ts";

const data = Buffer.from("data");
const upload = "0".repeat(32);

it.each([
  [{ kind: "stat", path: "a" }],
  [{ kind: "list", path: "a" }],
  [{ kind: "make-directory", path: "a" }],
  [{ kind: "read", path: "a", offset: 0 }],
  [{ kind: "read", path: "a", offset: 5, inode: 7 }],
  [{ kind: "read", path: "a", offset: 5, inode: "9223372036865870145" }],
  [{ kind: "remove", path: "a", isRecursive: true }],
  [{ kind: "commit", path: "a", upload, mode: 0o600 }],
  [{ kind: "abort", path: "a", upload }],
])("accepts %j", (operation) => {
  expect(parseFileOperation(JSON.stringify(operation), data)).toEqual(operation);
});

it("takes the data of a write from the body", () => {
  const operation = { kind: "write", path: "a", upload, offset: 0 };
  expect(parseFileOperation(JSON.stringify(operation), data)).toEqual({ ...operation, data });
});

it.each([
  ["no JSON", "{"],
  ["a list", "[]"],
  ["another kind", '{"kind":"chmod","path":"a"}'],
  ["no path", '{"kind":"stat"}'],
  ["a path that is not text", '{"kind":"stat","path":["a"]}'],
  ["a long path", JSON.stringify({ kind: "stat", path: "a".repeat(5000) })],
  ["a negative offset", '{"kind":"read","path":"a","offset":-1}'],
  ["a fraction as an offset", '{"kind":"read","path":"a","offset":0.5}'],
  ["an inode that is not one", '{"kind":"read","path":"a","offset":0,"inode":"1e3"}'],
  ["a write without an upload", '{"kind":"write","path":"a","offset":0}'],
  ["a commit without a mode", JSON.stringify({ kind: "commit", path: "a", upload })],
])("rejects %s", (_, text) => {
  expect(parseFileOperation(text, data)).toBeUndefined();
});
