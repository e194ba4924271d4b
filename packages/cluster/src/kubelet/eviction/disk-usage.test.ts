import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, expect, test } from "vitest";
import { measureDiskUsage } from "./disk-usage.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-usage-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("counts the blocks of each path, also with unusual names, and nothing of one that does not exist", async () => {
  const [full, sparse, none] = ["full\n\tof lines", "sparse", "none"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [full, sparse]) mkdirSync(path);
  writeFileSync(join(full, "data"), Buffer.alloc(3 << 20, "x"));
  writeFileSync(join(sparse, "hole"), "");
  truncateSync(join(sparse, "hole"), 2 ** 34);
  const { measured, slowest } = await measureDiskUsage(systemClock)([full, none, sparse], 60_000);
  expect([...measured.keys()]).toEqual([full, sparse]);
  expect(measured.get(full)?.bytes).toBeGreaterThanOrEqual(3 << 20);
  expect(measured.get(sparse)?.bytes).toBeLessThan(1 << 20);
  expect(slowest).toBeUndefined();
});

test("names the path that takes too long", async () => {
  const clock = createVirtualClock();
  const paths = Array.from({ length: 300 }, (_, index) => join(folder, `p${index}`));
  for (const path of paths) mkdirSync(path);
  const measuring = measureDiskUsage(clock)(paths, 10);
  await clock.advance(10);
  const { measured, slowest } = await measuring;
  expect(slowest).toBe(paths.find((path) => !measured.has(path)));
});
