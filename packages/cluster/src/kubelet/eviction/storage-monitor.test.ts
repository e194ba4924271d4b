import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, test } from "vitest";
import { podOf } from "../pod/testing/simulated-pod.ts";
import type { PodView } from "../pod/pod-view.ts";
import type { Measurement } from "./disk-usage.ts";
import { type MonitoredPod, StorageMonitor } from "./storage-monitor.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-storage-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A Pod with a volume `data` of at most 100 bytes, and a container of at most 1,000. */
function pod(uid: string, evicted: string[], change: Partial<PodView["spec"]> = {}): MonitoredPod {
  const own = join(folder, uid);
  for (const path of ["volumes/data", "logs", "roots/main.1/changes"]) mkdirSync(join(own, path), { recursive: true });
  const spec = {
    volumes: [{ name: "data", emptyDir: { sizeLimit: "100" } }],
    containers: [{ name: "main", image: "x", resources: { limits: { "ephemeral-storage": "1000" } } }],
    ...change,
  };
  return {
    pod: podOf(spec as Parameters<typeof podOf>[0], { uid, name: uid }),
    folder: own,
    containers: [{ name: "main", attempt: 1 }],
    program: (_, attempt) =>
      attempt === 1
        ? { logs: { stdout: join(own, "logs", "stdout.log"), stderr: join(own, "logs", "stderr.log") } }
        : undefined,
    evict: (message) => void evicted.push(`${uid}: ${message}`),
  };
}

class FakeDisk {
  readonly bytes = new Map<string, number>();
  readonly tookMs = new Map<string, number>();
  readonly measured: (readonly string[])[] = [];
  slowest: string | undefined;

  readonly measure = (paths: readonly string[]): Promise<Measurement> => {
    const short = paths.map((path) => path.slice(folder.length + 1));
    this.measured.push(short);
    const found = short.filter((path) => path !== this.slowest);
    const { slowest } = this;
    return Promise.resolve({
      measured: new Map(
        found.map((path) => [join(folder, path), { bytes: this.bytes.get(path) ?? 0, tookMs: this.tookMs.get(path) ?? 0 }]),
      ),
      ...(slowest !== undefined && short.includes(slowest) && { slowest: join(folder, slowest) }),
    });
  };
}

function monitor(pods: readonly MonitoredPod[]) {
  const clock = createVirtualClock();
  const disk = new FakeDisk();
  const running = new StorageMonitor({ clock, log: silentLogger, pods: () => pods, measure: disk.measure });
  return { clock, disk, running };
}

test("measures every 10 s the Pods that have limits, and evicts one that exceeds them", async () => {
  const evicted: string[] = [];
  const free = { volumes: [{ name: "data", emptyDir: {} }], containers: [{ name: "main", image: "x" }] };
  const critical = { priority: 2_000_000_000 };
  const { clock, disk, running } = monitor([pod("a", evicted), pod("free", evicted, free), pod("system", evicted, critical)]);
  disk.bytes.set("a/logs", 100).set("a/roots/main.1/changes", 100).set("a/volumes/data", 100);
  await clock.advance(10_000);
  await expect.poll(() => disk.measured, { timeout: 10_000 }).toEqual([["a/volumes/data", "a/logs", "a/roots/main.1/changes"]]);
  expect(evicted).toEqual([]);
  disk.bytes.set("a/volumes/data", 101);
  const isEvicted = async (): Promise<boolean> => {
    await clock.advance(10_000);
    return evicted.length > 0;
  };
  await expect.poll(isEvicted, { timeout: 10_000 }).toBe(true);
  expect(new Set(evicted)).toEqual(new Set(['a: Usage of EmptyDir volume "data" exceeds the limit "100". ']));
  running.stop();
});

test("does not count what the node wrote into the root of a container", async () => {
  const evicted: string[] = [];
  const { disk, running } = monitor([pod("a", evicted)]);
  writeFileSync(join(folder, "a/roots/main.1/owned"), "5000");
  disk.bytes.set("a/roots/main.1/changes", 6000);
  await running.check();
  expect(evicted).toEqual([]);
  disk.bytes.set("a/roots/main.1/changes", 6001);
  await running.check();
  expect(evicted).toEqual(["a: Pod ephemeral local storage usage exceeds the total limit of containers 1k. "]);
  running.stop();
});

test("a Pod with very many files is measured last and rarely, and does not hide others", async () => {
  const evicted: string[] = [];
  const { clock, disk, running } = monitor([pod("huge", evicted), pod("other", evicted)]);
  disk.slowest = "huge/volumes/data";
  await running.check();
  disk.bytes.set("other/volumes/data", 200);
  await running.check();
  expect(disk.measured.map((paths) => [...new Set(paths.map((path) => path.split("/")[0]))])).toEqual([
    ["huge", "other"],
    ["other"],
  ]);
  expect(evicted).toEqual(['other: Usage of EmptyDir volume "data" exceeds the limit "100". ']);
  running.stop();
  // A tenth of the time for a measurement of one minute.
  await clock.advance(600_000);
  await running.check();
  expect(disk.measured.at(-1)?.map((path) => path.split("/")[0])).toEqual(["other", "other", "other", "huge", "huge", "huge"]);
});

test("a measurement that fails is repeated", async () => {
  const evicted: string[] = [];
  const clock = createVirtualClock();
  let calls = 0;
  const measure = (): Promise<Measurement> => {
    calls++;
    return Promise.reject(new Error("spawn du ENOENT"));
  };
  const pods = [pod("a", evicted)];
  const running = new StorageMonitor({ clock, log: silentLogger, pods: () => pods, measure });
  await expect.poll(() => clock.advance(10_000).then(() => calls), { timeout: 10_000 }).toBeGreaterThan(1);
  running.stop();
});
