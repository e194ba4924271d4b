import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Batch, keysPerPart, type State } from "./engine.ts";
import { LmdbEngine } from "./lmdb-engine.ts";
import { endOfPrefix } from "./key-order.ts";
import { RecentWrites } from "../journal/recent-writes.ts";

const keysOf = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(6, "0")}`);
const batchOf = (keys: readonly string[], value: Uint8Array | undefined): Batch => ({
  objects: keys.map((key) => ({ key, value })),
  log: [],
  position: { revision: 2, compacted: 1 },
  dropAfter: 1,
});

let dir: string;
let engine: LmdbEngine;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "keelson-count-"));
  engine = new LmdbEngine({ dir, sync: false });
  const keys = [...keysOf("/a/", keysPerPart), ...keysOf("/b/", 2 * keysPerPart + 1), ...keysOf("/c/", 3)];
  await engine.commit(batchOf(keys, Buffer.from("value")));
});
afterAll(async () => {
  await engine.close();
  rmSync(dir, { recursive: true, force: true });
});

const partsOf = (state: State, prefix: string): readonly number[] => [...state.count(prefix, endOfPrefix(prefix))];

it("counts keys in parts of limited size", () => {
  expect(partsOf(engine, "/a/")).toEqual([keysPerPart]);
  expect(partsOf(engine, "/b/")).toEqual([keysPerPart, keysPerPart, 1]);
  expect(partsOf(engine, "/c/")).toEqual([3]);
  expect(partsOf(engine, "/d/")).toEqual([0]);
  expect(partsOf(engine, "")).toEqual([keysPerPart, keysPerPart, keysPerPart, 4]);
});

it("knows whether a key exists", () => {
  expect(["/c/000000", "/c/00000", "/c/000003"].map((key) => engine.has(key))).toEqual([true, false, false]);
});

it("adds recent writes to a count in parts of limited size", () => {
  const recent = new RecentWrites();
  recent.add(batchOf(keysOf("/a/", 1_100), undefined));
  recent.add(batchOf(keysOf("/a/", 100), Buffer.from("again")));
  recent.add(batchOf(["/a/x"], Buffer.from("new")));
  expect(partsOf(recent.over(engine), "/a/")).toEqual([keysPerPart, -400, -500, -99]);
});
