import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lastLinesOffset } from "./last-lines.ts";

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "keelson-lines-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const long = "x".repeat(70_000);

test.each([
  ["", 2, ""],
  ["a\n", 1, "a\n"],
  ["a\nb\nc\n", 0, ""],
  ["a\nb\nc\n", 2, "b\nc\n"],
  ["a\nb\nc\n", 9, "a\nb\nc\n"],
  ["a\nb\nunfinished", 1, "unfinished"],
  ["\n\n\n", 2, "\n\n"],
  [`a\n${long}\n${long}\n`, 2, `${long}\n${long}\n`],
])("of %j, the last %i lines", async (content, count, expected) => {
  const path = join(dir, "log");
  await writeFile(path, content);
  expect(content.slice(await lastLinesOffset(path, count))).toBe(expected);
});
