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

let environment: TestEnvironment;
let client: Client;
let dataDir: string;
let addresses: AddressBlock;
let kubelet: Kubelet;

beforeAll(async () => {
  addresses = await reserveAddressBlock(import.meta.filename);
});
afterAll(() => addresses.release());
beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "kubelet" });
  dataDir = await mkdtemp(join(tmpdir(), "keelson-eviction-"));
  kubelet = await startKubelet({
    ...{ client, dataDir, nodeName: "here", podNetwork: addresses.podNetwork, defaultRuntime: "bubblewrap" },
    ...{ clock: systemClock, random: Math.random, log: silentLogger },
  });
});
afterEach(async () => {
  for (const { metadata } of (await client.list(Pod)).items) await client.delete(Pod, metadata, { gracePeriodSeconds: 1 });
  await expect.poll(async () => (await client.list(Pod)).items, { timeout: 60_000 }).toEqual([]);
  await kubelet.stop();
  await environment.stop();
  await rm(dataDir, { recursive: true, force: true });
});

async function run(name: string, script: string, limit?: string): Promise<void> {
  const resources = limit === undefined ? {} : { limits: { "ephemeral-storage": limit } };
  await client.create(Pod, {
    metadata: { name, namespace: "default" },
    spec: {
      nodeName: "here",
      volumes: [{ name: "data", emptyDir: { sizeLimit: "1Mi" } }],
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

test("the node reports the size of its disk, a tenth of which Pods cannot request", async () => {
  const { capacity = {}, allocatable = {} } = (await client.get(Node, { name: "here" })).status ?? {};
  const bytes = Number.parseInt(String(capacity["ephemeral-storage"])) * 1024;
  expect(bytes).toBeGreaterThan(0);
  expect(Number(allocatable["ephemeral-storage"]) / bytes).toBeCloseTo(0.9, 3);
});
