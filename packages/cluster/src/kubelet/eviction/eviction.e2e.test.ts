import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import { Node, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type AddressBlock, reserveAddressBlock } from "../../address-block.ts";
import { type Kubelet, startKubelet } from "../kubelet.ts";
import { readSpace } from "../pressure/read-space.ts";
import type { EvictionSettings } from "../pressure/thresholds.ts";

let environment: TestEnvironment;
let client: Client;
let dataDir: string;
let addresses: AddressBlock;
let kubelet: Kubelet;
/** Whether a file system is mounted on the data directory. */
let isMounted = false;

beforeAll(async () => {
  addresses = await reserveAddressBlock(import.meta.filename);
});
afterAll(() => addresses.release());
beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "kubelet" });
  dataDir = await mkdtemp(join(tmpdir(), "keelson-eviction-"));
  kubelet = await start();
});
afterEach(async () => {
  for (const { metadata } of (await client.list(Pod)).items) await client.delete(Pod, metadata, { gracePeriodSeconds: 1 });
  await expect.poll(async () => (await client.list(Pod)).items, { timeout: 60_000 }).toEqual([]);
  await kubelet.stop();
  await environment.stop();
  if (isMounted) execFileSync("umount", ["--lazy", dataDir]);
  isMounted = false;
  await rm(dataDir, { recursive: true, force: true });
});

const start = (eviction?: EvictionSettings): Promise<Kubelet> =>
  startKubelet({
    ...{ client, dataDir, nodeName: "here", podNetwork: addresses.podNetwork, defaultRuntime: "bubblewrap" },
    ...{ clock: systemClock, random: Math.random, log: silentLogger },
    ...(eviction !== undefined && { eviction }),
  });

async function run(name: string, script: string, limit?: string, emptyDir: object = { sizeLimit: "1Mi" }): Promise<void> {
  const resources = limit === undefined ? {} : { limits: { "ephemeral-storage": limit } };
  await client.create(Pod, {
    metadata: { name, namespace: "default" },
    spec: {
      nodeName: "here",
      volumes: [{ name: "data", emptyDir }],
      containers: [
        {
          ...{ name: "main", image: "none", command: ["sh", "-c", `${script}; exec sleep 3600`], resources },
          volumeMounts: [{ name: "data", mountPath: "/data" }],
        },
      ],
    },
  });
}

async function ended(name: string): Promise<DeepReadonly<PodObject>["status"]> {
  const watch = await client.watch(Pod, { namespace: "default", fieldSelector: `metadata.name=${name}` });
  try {
    for await (const { type, object } of watch) {
      if (type !== "BOOKMARK" && object.status?.phase === "Failed") return object.status;
    }
  } finally {
    watch.close();
  }
  throw new Error("the watch has ended");
}

test("Pods that fill the disk are evicted with the kubelet's messages, and others keep running", async () => {
  await run("sparse", "truncate -s 1G /data/hole");
  await run("volume", "head -c 3000000 /dev/zero > /data/file");
  await run("log", "head -c 3000000 /dev/zero | tr '\\0' 'x'", "2Mi");
  await run("work", "head -c 3000000 /dev/zero > /tmp/file", "2Mi");
  const total = "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ";
  const messages = { volume: 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". ', log: total, work: total };
  for (const [name, message] of Object.entries(messages)) {
    const status = await ended(name);
    expect(status).toMatchObject({ phase: "Failed", reason: "Evicted", message });
    expect(status?.conditions).toContainEqual(
      expect.objectContaining({ type: "DisruptionTarget", status: "True", reason: "TerminationByKubelet", message }),
    );
  }
  expect((await client.get(Pod, { namespace: "default", name: "sparse" })).status?.phase).toBe("Running");
}, 180_000);

/** How a Pod fails. */
const failure = async (name: string): Promise<unknown> => {
  const { phase, reason, message = "" } = (await ended(name)) ?? {};
  return { phase, reason, message: message.replaceAll(/\d+Ki/g, "N") };
};

test("a node whose disk is full rejects new Pods, evicts the one that uses most and removes its files", async () => {
  await kubelet.stop();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", dataDir]);
  isMounted = true;
  kubelet = await start({ thresholds: { "nodefs.available": { amount: 20 << 20 } }, transitionMs: 600_000 });
  await run("small", "head -c 5000000 /dev/zero > /tmp/file", undefined, {});
  await run("large", "head -c 45000000 /dev/zero > /data/file", undefined, {});
  const low = "The node was low on resource: ephemeral-storage. Threshold quantity: 20Mi, available: N. ";
  const main = "Container main was using N, request is 0, has larger consumption of ephemeral-storage. ";
  expect(await failure("large")).toEqual({ phase: "Failed", reason: "Evicted", message: `${low}${main}` });
  const node = async (): Promise<unknown> =>
    (await client.get(Node, { name: "here" })).status?.conditions?.find(({ type }) => type === "DiskPressure")?.status;
  await expect.poll(node, { timeout: 60_000 }).toBe("True");
  await run("late", "true", undefined, {});
  const message = "Pod was rejected: The node had condition: [DiskPressure]. ";
  expect(await failure("late")).toEqual({ phase: "Failed", reason: "Evicted", message });
  expect((await client.get(Pod, { namespace: "default", name: "small" })).status?.phase).toBe("Running");
  const free = async (): Promise<number> => (await readSpace(dataDir))["nodefs.available"].free;
  await expect.poll(free, { timeout: 60_000 }).toBeGreaterThan(50 << 20);
}, 180_000);

test("the node reports the size of its disk, of which Pods cannot request what must stay free", async () => {
  const { capacity = {}, allocatable = {} } = (await client.get(Node, { name: "here" })).status ?? {};
  const bytes = Number.parseInt(String(capacity["ephemeral-storage"])) * 1024;
  expect(bytes).toBeGreaterThan(0);
  const reserved = Math.min(0.1 * bytes, 2 ** 30);
  expect((Number(allocatable["ephemeral-storage"]) + reserved) / bytes).toBeCloseTo(1, 3);
});
