import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { DeepReadonly } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type AddressBlock, reserveAddressBlock } from "../address-block.ts";
import { type Kubelet, startKubelet } from "./kubelet.ts";

const pod = { namespace: "default", name: "p" };
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
  dataDir = await mkdtemp(join(tmpdir(), "keelson-resize-"));
});
afterEach(async () => {
  const { items } = await client.list(Pod);
  if (items.length > 0) await client.delete(Pod, pod, { gracePeriodSeconds: 1 });
  await expect.poll(async () => (await client.list(Pod)).items, { timeout: 60_000 }).toEqual([]);
  await kubelet.stop();
  await environment.stop();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(defaultRuntime: string): Promise<void> {
  kubelet = await startKubelet({
    ...{ client, dataDir, nodeName: "here", podNetwork: addresses.podNetwork, defaultRuntime },
    ...{ clock: systemClock, random: Math.random, log: silentLogger },
  });
}

async function podThat(isWanted: (pod: DeepReadonly<PodObject>) => boolean): Promise<DeepReadonly<PodObject>> {
  const watch = await client.watch(Pod, { namespace: pod.namespace, fieldSelector: `metadata.name=${pod.name}` });
  try {
    for await (const { type, object } of watch) if (type !== "BOOKMARK" && isWanted(object)) return object;
  } finally {
    watch.close();
  }
  throw new Error("the watch has ended");
}

const resourcesOf = (cpu: string, memory: string) => ({ requests: { cpu: "10m", memory: "16Mi" }, limits: { cpu, memory } });

async function resize(cpu: string, memory: string, request = "10m"): Promise<void> {
  const { limits, requests } = resourcesOf(cpu, memory);
  const body = { spec: { containers: [{ name: "main", resources: { limits, requests: { ...requests, cpu: request } } }] } };
  await client.patch(Pod, pod, { type: "strategic", body }, { subresource: "resize" });
}

const conditionOf = ({ status }: DeepReadonly<PodObject>, type: string) =>
  (status?.conditions ?? []).find((condition) => condition.type === type);

const applied = () => kubelet.container(pod.namespace, pod.name, "main")?.program?.limits.applied;

/** The share of the CPU that the container itself sees. */
async function visibleShare(): Promise<string> {
  const command = ["/bin/sh", "-c", "cd /sys/fs/cgroup; cat cpu/cpu.shares cpu.weight 2>/dev/null; true"] as const;
  const session = await kubelet.container(pod.namespace, pod.name, "main")?.program?.exec({ command });
  return session === undefined ? "" : text(session.stdout);
}

const hasLimits = ({ status }: DeepReadonly<PodObject>, cpu: string, memory: string): boolean => {
  const limits = status?.containerStatuses?.[0]?.resources?.limits;
  const isOver = !(status?.conditions ?? []).some(({ type }) => type.startsWith("PodResize"));
  return isOver && limits?.["cpu"] === cpu && limits["memory"] === memory;
};

describe.each(["process", "bubblewrap"])("with runtime %s", { timeout: 120_000 }, (runtime) => {
  test("a running container is resized in place, or by a restart, and keeps its resources when the kubelet restarts", async (context) => {
    await start(runtime);
    const resizePolicy = [{ resourceName: "memory", restartPolicy: "RestartContainer" as const }];
    const command = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"];
    const main = { name: "main", image: "none", command, resources: resourcesOf("200m", "64Mi"), resizePolicy };
    const spec = { nodeName: "here", terminationGracePeriodSeconds: 30, automountServiceAccountToken: false };
    await client.create(Pod, { metadata: pod, spec: { ...spec, containers: [main] } });
    await podThat(({ status }) => status?.phase === "Running");
    if (applied()?.cpuMillis === undefined || applied()?.memoryBytes === undefined) return context.skip();

    await resize("300m", "64Mi");
    await podThat((object) => hasLimits(object, "300m", "64Mi"));
    expect(applied()).toMatchObject({ cpuMillis: 300, cpuShares: 10, memoryBytes: 64 << 20 });

    await resize("300m", "64Mi", "30m");
    await expect.poll(applied, { timeout: 60_000 }).toMatchObject({ cpuShares: 30 });
    // 30 shares, or a weight of 8.
    if (runtime === "bubblewrap" && process.getuid?.() === 0) expect(await visibleShare()).toMatch(/^(?:30|8)\n$/);

    await resize("300m", "96Mi");
    const restarted = await podThat((object) => hasLimits(object, "300m", "96Mi") && object.status?.phase === "Running");
    expect(restarted.metadata.generation).toBe(restarted.status?.observedGeneration);
    await podThat(({ status }) => status?.containerStatuses?.[0]?.restartCount === 1);
    await expect.poll(applied, { timeout: 60_000 }).toMatchObject({ cpuMillis: 300, memoryBytes: 96 << 20 });

    await resize("500", "96Mi", "400");
    const refused = await podThat((object) => conditionOf(object, "PodResizePending") !== undefined);
    expect(conditionOf(refused, "PodResizePending")).toMatchObject({ status: "True", reason: "Infeasible" });

    await kubelet.stop();
    await resize("400m", "96Mi");
    await start(runtime);
    await podThat((object) => hasLimits(object, "400m", "96Mi"));
    expect(applied()).toMatchObject({ cpuMillis: 400, memoryBytes: 96 << 20 });
  });
});
