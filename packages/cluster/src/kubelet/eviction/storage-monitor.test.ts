import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Clock, Timer } from "@keelson/api-machinery/time";
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
    pod: podOf(spec as Parameters<typeof podOf>[0], {
      uid,
      name: uid,
      namespace: uid === "system" ? "kube-system" : "default",
    }),
    folder: own,
    containers: [{ name: "main", attempt: 1 }],
    program: (_, attempt) =>
      attempt === 1
        ? { logs: { stdout: join(own, "logs", "stdout.log"), stderr: join(own, "logs", "stderr.log") } }
        : undefined,
    evict: (message) => void evicted.push(`${uid}: ${message}`),
  };
}

/** A disk whose paths take time to be counted. */
class FakeDisk {
  readonly bytes = new Map<string, number>();
  readonly tookMs = new Map<string, number>();
  /** The paths of each measurement. */
  readonly measured: (readonly string[])[] = [];

  readonly measure = (paths: readonly string[], timeoutMs: number): Promise<Measurement> => {
    const short = paths.map((path) => path.slice(folder.length + 1));
    if (short.length > 0) this.measured.push(short);
    const measured = new Map<string, { readonly bytes: number; readonly tookMs: number }>();
    let left = timeoutMs;
    for (const path of short) {
      const tookMs = this.tookMs.get(path) ?? 0;
      left -= tookMs;
      if (left < 0) return Promise.resolve({ measured, slowest: join(folder, path) });
      measured.set(join(folder, path), { bytes: this.bytes.get(path) ?? 0, tookMs });
    }
    return Promise.resolve({ measured });
  };

  /** The Pods of each measurement since the last call. */
  pods(): readonly string[] {
    const pods = this.measured.map((paths) => [...new Set(paths.map((path) => path.split("/")[0]))].join("+"));
    this.measured.length = 0;
    return pods;
  }
}

/** A clock whose timers never fire: the test calls `check`. */
class StoppedClock implements Clock {
  time = 0;
  readonly now = (): number => this.time;
  readonly monotonic = (): number => this.time;
  readonly setTimer = (): Timer => ({ cancel: () => {} });
}

function monitor(pods: readonly MonitoredPod[]) {
  const clock = new StoppedClock();
  const disk = new FakeDisk();
  const running = new StorageMonitor({ clock, log: silentLogger, pods: () => pods, measure: disk.measure });
  return { clock, disk, running };
}

test("measures every 10 s the Pods that have limits, and evicts one that exceeds them", async () => {
  const evicted: string[] = [];
  const free = { volumes: [{ name: "data", emptyDir: {} }], containers: [{ name: "main", image: "x" }] };
  const critical = { priority: 2_000_000_000 };
  const pods = [pod("a", evicted), pod("free", evicted, free), pod("system", evicted, critical)];
  const clock = createVirtualClock();
  const disk = new FakeDisk();
  const running = new StorageMonitor({ clock, log: silentLogger, pods: () => pods, measure: disk.measure });
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
  await running.stop();
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
  await running.stop();
});

test("does not count a root whose change of owner has not ended, or was made by an earlier version", async () => {
  const evicted: string[] = [];
  const adopted = pod("adopted", evicted);
  const starting = { ...pod("starting", evicted), program: () => undefined };
  const { disk, running } = monitor([adopted, starting]);
  writeFileSync(join(folder, "adopted/roots/main.1/owned"), "");
  for (const uid of ["adopted", "starting"]) disk.bytes.set(`${uid}/roots/main.1/changes`, 6000);
  await running.check();
  expect(evicted).toEqual([]);
  expect(disk.measured).toEqual([["adopted/volumes/data", "adopted/logs", "starting/volumes/data"]]);
  await running.stop();
});

test("measures only the volumes with a limit if nothing else has one", async () => {
  const containers = [{ name: "main", image: "x" }];
  const { disk, running } = monitor([
    pod("a", [], {
      containers,
      volumes: [
        { name: "data", emptyDir: {} },
        { name: "b", emptyDir: { sizeLimit: "1" } },
      ],
    }),
  ]);
  mkdirSync(join(folder, "a/volumes/b"));
  await running.check();
  expect(disk.measured).toEqual([["a/volumes/b"]]);
  await running.stop();
});

test("a Pod with many files is measured rarely and on its own, and does not hide others", async () => {
  const evicted: string[] = [];
  const { disk, running } = monitor([pod("huge", evicted), pod("other", evicted)]);
  disk.tookMs.set("huge/volumes/data", 30_000);
  await running.check();
  expect(disk.pods()).toEqual(["huge+other", "huge", "huge", "huge"]);
  disk.bytes.set("other/volumes/data", 200).set("huge/volumes/data", 200);
  await running.check();
  expect(disk.pods()).toEqual(["other"]);
  expect(evicted).toEqual(['other: Usage of EmptyDir volume "data" exceeds the limit "100". ']);
  await running.stop();
});

test("a Pod with many files takes at most a tenth of the time", async () => {
  const { clock, disk, running } = monitor([pod("huge", [])]);
  disk.tookMs.set("huge/volumes/data", 30_000);
  await running.check();
  expect(disk.pods()).toEqual(["huge", "huge", "huge", "huge"]);
  clock.time = 299_999;
  await running.check();
  expect(disk.pods()).toEqual([]);
  clock.time = 300_000;
  await running.check();
  expect(disk.pods()).toEqual(["huge", "huge", "huge"]);
  await running.stop();
});

test("Pods that were not reached in time come first in the next measurement", async () => {
  const names = Array.from({ length: 30 }, (_, index) => `p${index}`);
  const { disk, running } = monitor(names.map((uid) => pod(uid, [])));
  for (const uid of names) disk.tookMs.set(`${uid}/volumes/data`, 900);
  await running.check();
  // There is time for 22 Pods. The next one is then measured on its own.
  expect(disk.pods()).toEqual([names.join("+"), "p22", "p22", "p22"]);
  await running.check();
  expect(disk.pods()[0]).toMatch(/^p23\+.*\+p29\+p0\+/);
  await running.stop();
});

test("a Pod with a path that cannot be counted is evicted for another one that exceeds its limit", async () => {
  const evicted: string[] = [];
  const { disk, running } = monitor([pod("a", evicted)]);
  disk.tookMs.set("a/volumes/data", Number.POSITIVE_INFINITY);
  disk.bytes.set("a/logs", 1001);
  await running.check();
  expect(evicted).toEqual(["a: Pod ephemeral local storage usage exceeds the total limit of containers 1k. "]);
  await running.stop();
});

test("a Pod that cannot be counted in three consecutive measurements is evicted", async () => {
  const evicted: string[] = [];
  const { clock, disk, running } = monitor([pod("a", evicted)]);
  const check = async (tookMs: number): Promise<void> => {
    disk.tookMs.set("a/volumes/data", tookMs);
    clock.time += 400_000;
    await running.check();
  };
  for (const tookMs of [60_001, 60_001, 30_000, 60_001, 60_001]) await check(tookMs);
  expect(evicted).toEqual([]);
  await check(60_001);
  expect(evicted).toEqual([
    "a: Pod has too many files to count its local ephemeral storage usage: 3 consecutive measurements exceeded 60s per volume or container. ",
  ]);
  await running.stop();
});

test("stopping ends a running measurement and waits for its end", async () => {
  const clock = createVirtualClock();
  const pods = [pod("a", [])];
  let end: (() => void) | undefined;
  let aborted = 0;
  const measure = (paths: readonly string[], _: number, signal?: AbortSignal): Promise<Measurement> =>
    new Promise((resolve, reject) => {
      if (paths.length === 0) return resolve({ measured: new Map() });
      signal?.addEventListener("abort", () => aborted++);
      end = () => reject(new Error("aborted"));
    });
  const running = new StorageMonitor({ clock, log: silentLogger, pods: () => pods, measure });
  await clock.advance(10_000);
  await expect.poll(() => end, { timeout: 10_000 }).toBeDefined();
  let isStopped = false;
  const stopping = running.stop().then(() => (isStopped = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect({ aborted, isStopped }).toEqual({ aborted: 1, isStopped: false });
  end?.();
  await stopping;
});

test("a measurement that fails is repeated, with a warning every 10 minutes", async () => {
  const evicted: string[] = [];
  const clock = new StoppedClock();
  const warnings: unknown[] = [];
  const log = { ...silentLogger, warn: (fields: unknown) => void warnings.push(fields) };
  const pods = [pod("a", evicted)];
  let calls = 0;
  const measure = (paths: readonly string[]): Promise<Measurement> => {
    if (paths.length === 0) return Promise.resolve({ measured: new Map() });
    calls++;
    if (calls % 2 === 0) return Promise.reject(new Error("spawn timeout ENOENT"));
    return Promise.resolve({ measured: new Map(), failure: { paths, reason: "exit code 127: nice: 'du': not found" } });
  };
  const running = new StorageMonitor({ clock, log, pods: () => pods, measure });
  for (; clock.time <= 600_000; clock.time += 10_000) await running.check();
  expect(calls).toBe(61);
  expect(warnings).toMatchObject([
    { reason: "exit code 127: nice: 'du': not found" },
    { path: join(folder, "a/volumes/data") },
  ]);
  expect(evicted).toEqual([]);
  await running.stop();
});
