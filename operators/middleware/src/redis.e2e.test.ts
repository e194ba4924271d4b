import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { DeepReadonly } from "@keelson/api-machinery";
import { PersistentVolume, PersistentVolumeClaim, Pod, type PodObject, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { type Kubelet, startKubelet } from "@keelson/cluster";
import { createVolumeControllers, createWorkloadControllers, ensureStandardClass } from "@keelson/cluster/controllers";
import { createManager, type Logger, type Manager, silentLogger } from "@keelson/controller";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectResp, parseInfo } from "./agent/resp-client.ts";
import { App } from "./api/app.ts";
import { Group } from "./api/group.ts";
import { createMiddleware } from "./operator.ts";
import { startLiveWriter } from "./testing/live-writer.ts";
import { watched } from "@keelson/client/testing";

const namespace = "default";
const agentMain = fileURLToPath(new URL("../dist/agent/main.js", import.meta.url));
const middleware = createMiddleware({ agentCommand: [process.execPath, agentMain] });
let environment: TestEnvironment;
let client: Client;
let dataDir: string;
let cluster: Manager;
let kubelet: Kubelet;
let operator: RunningOperator;
let closeVolumes: () => void;
const errors: string[] = [];
const log: Logger = {
  ...silentLogger,
  child: () => log,
  error: (fields: unknown, message?: string) =>
    errors.push(`${message ?? ""} ${JSON.stringify(fields)} ${String((fields as { err?: unknown }).err)}`),
} as Logger;

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: middleware.resources.map((resource) => resource.crd) });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  dataDir = await mkdtemp(join(tmpdir(), "middleware-e2e-"));
  const common = { client, clock: systemClock, random: Math.random, log: silentLogger };
  await ensureStandardClass(client);
  cluster = createManager({
    name: "kube-controller-manager",
    client,
    logger: log,
    controllers: [...createWorkloadControllers(), ...createVolumeControllers({ directory: join(dataDir, "volumes") })],
  });
  await cluster.start();
  // Acts as the node does for a hostPath of type DirectoryOrCreate.
  const volumes = await client.watch(PersistentVolume);
  closeVolumes = () => volumes.close();
  void (async () => {
    for await (const event of volumes) {
      const path = (event.object as { spec?: { hostPath?: { path?: string } } }).spec?.hostPath?.path;
      if (path !== undefined) await mkdir(path, { recursive: true });
    }
  })();
  kubelet = await startKubelet({ ...common, dataDir: join(dataDir, "kubelet"), nodeName: "here" });
  operator = await startOperator({ operator: middleware, client, dataDir, logger: log });
}, 60_000);

afterEach(async () => {
  await operator.stop();
  for (const { metadata } of (await client.list(Pod)).items) {
    await client.delete(Pod, { namespace: metadata.namespace, name: metadata.name ?? "" }, { gracePeriodSeconds: 5 });
  }
  await waitUntilDeleted();
  await kubelet.stop();
  closeVolumes();
  await cluster.stop();
  await environment.stop();
  await rm(dataDir, { recursive: true, force: true });
}, 60_000);

async function waitUntilDeleted(): Promise<void> {
  const left = await client.list(Pod);
  for (const { metadata } of left.items) await watched(client, Pod, metadata.name ?? "", (each) => each === undefined);
}

const settled = (name: string, generation: number) =>
  watched(client, App, name, (app) => {
    if (app?.status?.plan?.outcome === "Failed" || app?.status?.phase === "Failed")
      throw new Error(JSON.stringify(app.status, undefined, 1));
    return (
      app?.status?.acceptedGeneration === generation &&
      app.status.plan?.generation === generation &&
      app.status.plan.outcome === "Succeeded"
    );
  });

async function password(): Promise<string> {
  const secret = await client.get(Secret, { namespace, name: "cache-access" });
  return Buffer.from(secret.data?.password ?? "", "base64").toString();
}

async function ask(host: string, ...words: string[]): Promise<unknown> {
  const connection = await connectResp({ host, port: 6379, password: await password(), timeoutMs: 3_000, clock: systemClock });
  try {
    return await connection.command(...words);
  } finally {
    connection.close();
  }
}

const pods = async (): Promise<readonly DeepReadonly<PodObject>[]> =>
  (await client.list(Pod, { namespace, labelSelector: "middleware.io/group=cache-redis-nodes" })).items;
const primary = async (): Promise<string> => {
  const group = await client.get(Group, { namespace, name: "cache-redis-nodes" });
  return (await pods()).find((pod) => pod.metadata.name === group.status?.primary?.pod)?.status?.podIP ?? "";
};
const change = async (spec: object): Promise<number> =>
  (await client.patch(App, { namespace, name: "cache" }, { type: "merge", body: { spec } })).metadata.generation ?? 0;

const nodes = (part: object) => ({ components: [{ name: "redis", groups: [{ name: "nodes", ...part }] }] });

describe("a Redis App", () => {
  it("is provisioned, applies hot and cold parameters under a live writer, grows its volumes and scales out", {
    timeout: 300_000,
  }, async () => {
    await client.create(App, {
      metadata: { name: "cache", namespace },
      spec: {
        plugin: { name: "redis", version: "1.0.0" },
        runtime: { name: "redis", version: "7.0" },
        config: { redisConfig: { maxmemory: "64mb" } },
        ...nodes({ storage: { size: "64Mi" } }),
      },
    });
    await settled("cache", 1);
    const first = await pods();
    expect(first.map((pod) => pod.metadata.labels?.["middleware.io/role"])).toEqual(["primary", "replica", "replica"]);
    const info = parseInfo((await ask(await primary(), "INFO", "replication")) as string);
    expect(info).toMatchObject({ role: "master", connected_slaves: "2" });

    // Hot: no Pod is replaced, no program is restarted.
    const before = await Promise.all(first.map((pod) => ask(pod.status?.podIP ?? "", "INFO", "server")));
    await settled("cache", await change({ config: { redisConfig: { maxmemory: "96mb" } } }));
    const after = await pods();
    expect(after.map((pod) => pod.metadata.uid)).toEqual(first.map((pod) => pod.metadata.uid));
    for (const [index, pod] of after.entries()) {
      const now = parseInfo((await ask(pod.status?.podIP ?? "", "INFO", "server")) as string);
      expect(now.run_id).toBe(parseInfo(before[index] as string).run_id);
      expect(await ask(pod.status?.podIP ?? "", "CONFIG", "GET", "maxmemory")).toEqual(["maxmemory", String(96 * 1_048_576)]);
    }

    // Cold, under a live writer.
    let addresses = after.map((pod) => pod.status?.podIP ?? "");
    const writer = startLiveWriter(() => addresses, await password());
    const watch = await client.watch(Pod, { namespace });
    void (async () => {
      for await (const event of watch) {
        const ip = event.type === "BOOKMARK" ? undefined : (event.object as PodObject).status?.podIP;
        if (ip !== undefined && ip !== "" && !addresses.includes(ip)) addresses = [...addresses, ip];
      }
    })();
    const wasPrimary = (await client.get(Group, { namespace, name: "cache-redis-nodes" })).status?.primary?.pod;
    await settled("cache", await change({ config: { redisConfig: { databases: "32" } } }));
    const report = await writer.stop();
    watch.close();
    const group = await client.get(Group, { namespace, name: "cache-redis-nodes" });
    expect(group.status?.primary?.pod).not.toBe(wasPrimary);
    const steps = group.status?.operation?.steps?.filter((step) => step.action === "restarts").map((step) => step.target);
    expect(steps?.at(-1)).toBe(wasPrimary);
    expect(new Set(steps).size).toBe(3);
    expect(report.acknowledged.size).toBeGreaterThan(100);
    const lost: string[] = [];
    const connection = await connectResp({
      host: await primary(),
      port: 6379,
      password: await password(),
      timeoutMs: 3_000,
      clock: systemClock,
    });
    for (const key of report.acknowledged) if ((await connection.command("GET", key)) !== key) lost.push(key);
    connection.close();
    expect(lost).toEqual([]);
    expect(await ask(await primary(), "CONFIG", "GET", "databases")).toEqual(["databases", "32"]);

    // Volumes grow and nothing restarts.
    const uids = (await pods()).map((pod) => pod.metadata.uid);
    await settled("cache", await change(nodes({ storage: { size: "96Mi" } })));
    const claims = await client.list(PersistentVolumeClaim, { namespace });
    expect(claims.items.map((claim) => claim.status?.capacity?.storage)).toEqual(["96Mi", "96Mi", "96Mi"]);
    expect((await pods()).map((pod) => pod.metadata.uid)).toEqual(uids);

    // A fourth Pod.
    await settled("cache", await change(nodes({ replicas: 4, storage: { size: "96Mi" } })));
    expect(parseInfo((await ask(await primary(), "INFO", "replication")) as string).connected_slaves).toBe("3");
    expect(errors).toEqual([]);
  });
});
