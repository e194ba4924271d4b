import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ImageCache, unusedImages } from "./image-cache.ts";

const policy = { cacheBytes: 100, unusedImageMs: 1_000_000 };
const none: ReadonlySet<string> = new Set();
let dir: string;
let file: string;
let removed: string[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-images-"));
  file = join(dir, "images.json");
  removed = [];
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const images = { remove: (name: string) => Promise.resolve(removed.push(name) > 0) };

it.each([
  ["within the limits", 100, none, 500_000, []],
  ["above the limit, longest ago first", 60, none, 500_000, ["a", "b"]],
  ["above the limit, but not in use", 60, new Set(["a"]), 500_000, ["b", "c"]],
  ["not used for too long", 100, none, 1_000_001, ["a", "b"]],
  ["not used for too long, but not in use", 100, new Set(["b"]), 2_000_000, ["a", "c"]],
])("chooses images: %s", (_, cacheBytes, inUse, now, expected) => {
  const pulled = { c: { bytes: 50, usedAt: 400_000 }, a: { bytes: 20, usedAt: 0 }, b: { bytes: 30, usedAt: 1 } };
  expect(unusedImages(pulled, inUse, { ...policy, cacheBytes }, now)).toEqual(expected);
});

it("removes what was pulled and is not used, also under the next agent, and nothing else", async () => {
  const clock = createVirtualClock(0);
  const first = await ImageCache.open({ file, images, policy, clock });
  await first.given("imported:1");
  await first.pulled("old:1", 80);
  await first.given("old:1");
  expect(await first.collect(none)).toEqual([]);
  await clock.advance(700_000);
  const next = await ImageCache.open({ file, images, policy, clock });
  await next.pulled("new:1", 80);
  // A task was just given the new one, and has no program yet.
  await next.given("new:1");
  expect(await next.collect(new Set(["old:1"]))).toEqual([]);
  expect(await next.collect(none)).toEqual(["old:1"]);
  expect(await next.collect(none)).toEqual([]);
  expect(removed).toEqual(["old:1"]);
});

it.each(["", "[1]", '{"a:1": 7, "b:1": {"bytes": "x"}}'])("starts with a damaged file: %j", async (content) => {
  writeFileSync(file, content);
  const cache = await ImageCache.open({ file, images, policy: { ...policy, cacheBytes: 0 }, clock: createVirtualClock(0) });
  expect(await cache.collect(none)).toEqual([]);
});
