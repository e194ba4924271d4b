import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { MeasureDiskUsage } from "../eviction/disk-usage.ts";
import type { MonitoredPod } from "../eviction/storage-monitor.ts";
import { podOf } from "../pod/testing/simulated-pod.ts";
import { DiskPressure } from "./disk-pressure.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-pressure-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A disk of 1,000 bytes with Pods that each have a volume. */
class FakeNode {
  readonly clock = createVirtualClock();
  readonly volumes = new Map<string, number>();
  readonly evicted: string[] = [];
  readonly changes: boolean[] = [];
  readonly met: string[] = [];
  /** Bytes that the node can remove. */
  reclaimable = 0;
  /** Other bytes in use. */
  used = 0;
  slowest: string | undefined;
  readonly pressure: DiskPressure;

  constructor() {
    const measure: MeasureDiskUsage = (paths) => {
      const slow = paths.find((path) => path === this.slowest);
      const counted = slow === undefined ? paths : paths.slice(0, paths.indexOf(slow));
      const entries = counted.map((path) => [path, { bytes: this.#bytesOf(path), tookMs: 1 }] as const);
      return Promise.resolve({ measured: new Map(entries), ...(slow !== undefined && { slowest: slow }) });
    };
    this.pressure = new DiskPressure({
      clock: this.clock,
      log: silentLogger,
      thresholds: { "nodefs.available": { amount: 100 } },
      transitionMs: 300_000,
      readSpace: () =>
        Promise.resolve({
          "nodefs.available": { free: 1000 - this.#sum(), capacity: 1000 },
          "nodefs.inodesFree": { free: 0, capacity: 0 },
        }),
      measure: { "nodefs.available": measure, "nodefs.inodesFree": measure },
      pods: () => [...this.volumes.keys()].map((name) => this.#pod(name)),
      reclaim: () => {
        this.reclaimable = 0;
        return Promise.resolve();
      },
      onChange: () => this.changes.push(this.pressure.isPresent),
      onThresholdMet: (signal) => this.met.push(signal),
    });
  }

  volume(name: string): string {
    return join(folder, name, "volumes", "data");
  }

  #bytesOf(path: string): number {
    return [...this.volumes].find(([name]) => path === this.volume(name))?.[1] ?? 0;
  }

  #sum(): number {
    return [...this.volumes.values()].reduce((sum, bytes) => sum + bytes, this.used + this.reclaimable);
  }

  #pod(name: string): MonitoredPod {
    mkdirSync(this.volume(name), { recursive: true });
    const priority = name.endsWith("critical") ? 2_000_000_000 : 0;
    const namespace = name === "critical" ? "kube-system" : "default";
    return {
      pod: podOf({ priority, volumes: [{ name: "data", emptyDir: {} }] }, { name, namespace, uid: name }),
      folder: join(folder, name),
      containers: [],
      program: () => undefined,
      evict: () => {
        this.evicted.push(name);
        this.volumes.delete(name);
      },
    };
  }
}

test("evicts the Pod that uses most, one at a time, until the space is sufficient", async () => {
  const node = new FakeNode();
  node.volumes.set("critical", 500).set("small", 60).set("large", 200).set("larger", 300);
  await node.pressure.check();
  expect(node.evicted).toEqual(["larger"]);
  node.volumes.set("small", 260);
  await node.pressure.check();
  expect(node.evicted).toEqual(["larger", "small"]);
  await node.pressure.check();
  expect(node.evicted).toEqual(["larger", "small"]);
});

test("a Pod of a user is evicted whatever its priority", async () => {
  const node = new FakeNode();
  node.volumes.set("critical", 900).set("not-critical", 50);
  await node.pressure.check();
  expect(node.evicted).toEqual(["not-critical"]);
});

test("evicts no Pod if removing unused files is enough", async () => {
  const node = new FakeNode();
  node.volumes.set("a", 500);
  node.reclaimable = 450;
  await node.pressure.check();
  expect(node.evicted).toEqual([]);
  expect(node.changes).toEqual([true]);
});

test("the pressure begins with the first look, and ends when the space was sufficient for the transition period", async () => {
  const node = new FakeNode();
  node.used = 950;
  await node.pressure.start();
  expect(node.pressure.isPresent).toBe(true);
  expect(node.met).toEqual(["nodefs.available"]);
  node.used = 100;
  const after = async (ms: number): Promise<boolean> => {
    await node.clock.advance(ms);
    await node.pressure.check();
    return node.pressure.isPresent;
  };
  expect(await after(200_000)).toBe(true);
  node.used = 950;
  expect(await after(10_000)).toBe(true);
  node.used = 100;
  expect(await after(299_000)).toBe(true);
  expect(await after(1_000)).toBe(false);
  expect(node.changes).toEqual([true, false]);
  expect(node.met).toEqual(["nodefs.available", "nodefs.available"]);
  await node.pressure.stop();
});

test("evicts a Pod whose files cannot be counted", async () => {
  const node = new FakeNode();
  node.volumes.set("large", 700).set("uncountable", 250);
  node.slowest = node.volume("uncountable");
  await node.pressure.check();
  expect(node.evicted).toEqual(["uncountable"]);
});
