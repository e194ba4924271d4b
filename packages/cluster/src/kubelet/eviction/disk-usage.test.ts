import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { measureDiskUsage } from "./disk-usage.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-usage-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** Puts a shell script in place of du, until the test ends. */
function replaceDu(script: string): void {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "du"), `#!/bin/sh\n${script}\n`);
  chmodSync(join(bin, "du"), 0o755);
  vi.stubEnv("PATH", `${bin}:${process.env.PATH}`);
}

test("counts the blocks of each path, even with unusual names, and nothing of one that does not exist", async () => {
  const [full, sparse, none] = ["full\n\tof lines", "sparse", "none"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [full, sparse]) mkdirSync(path);
  writeFileSync(join(full, "data"), Buffer.alloc(3 << 20, "x"));
  writeFileSync(join(sparse, "hole"), "");
  truncateSync(join(sparse, "hole"), 2 ** 34);
  const { measured, slowest, failure } = await measureDiskUsage(systemClock)([full, none, sparse], 60_000);
  expect([...measured.keys()]).toEqual([full, sparse]);
  expect(measured.get(full)?.bytes).toBeGreaterThanOrEqual(3 << 20);
  expect(measured.get(sparse)?.bytes).toBeLessThan(1 << 20);
  expect(slowest).toBeUndefined();
  expect(failure).toBeUndefined();
});

test("counts files instead of bytes", async () => {
  writeFileSync(join(folder, "a"), Buffer.alloc(3 << 20, "x"));
  writeFileSync(join(folder, "b"), "");
  const { measured } = await measureDiskUsage(systemClock, "files")([folder], 60_000);
  expect(measured.get(folder)?.bytes).toBe(3);
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

test("names the existing paths that du could not count, and why", async () => {
  replaceDu("echo \"du: unrecognized option 'files0-from'\" >&2; exit 1");
  const measurement = await measureDiskUsage(systemClock)([folder, join(folder, "none")], 60_000);
  expect(measurement).toEqual({
    measured: new Map(),
    failure: { paths: [folder], reason: "exit code 1: du: unrecognized option 'files0-from'" },
  });
});

test("a du that is killed has not counted the path", async () => {
  replaceDu("kill -KILL $$");
  const { failure } = await measureDiskUsage(systemClock)([folder], 60_000);
  expect(failure?.paths).toEqual([folder]);
});

test("du has ended when an aborted measurement rejects", async () => {
  const pidFile = join(folder, "pid");
  replaceDu(`echo $$ > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; exec sleep 600`);
  const aborting = new AbortController();
  const measuring = measureDiskUsage(systemClock)([folder], 600_000, aborting.signal);
  await expect.poll(() => existsSync(pidFile), { timeout: 60_000 }).toBe(true);
  aborting.abort();
  await expect(measuring).rejects.toThrow("aborted");
  expect(existsSync(`/proc/${readFileSync(pidFile, "utf8").trim()}`)).toBe(false);
}, 120_000);

test("du is bounded even if nothing ends it", async () => {
  replaceDu('tr "\\0" " " < /proc/$PPID/cmdline >&2; exit 1');
  const { failure } = await measureDiskUsage(systemClock)([folder], 60_000);
  expect(failure?.reason).toMatch(/exit code 1: timeout --kill-after=5 90 nice/);
});
