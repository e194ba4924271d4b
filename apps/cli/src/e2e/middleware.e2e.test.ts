import { isStatusError } from "@keelson/api-machinery";
import { Pod, type PodObject, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, connect } from "@keelson/client";
import { App, Group, middleware } from "@keelson/middleware";
import { watched } from "@keelson/client/testing";
import { connectResp, startLiveWriter } from "@keelson/middleware/testing";
import { expect, onTestFinished, test } from "vitest";
import { type TestKeelson, startTestKeelson } from "../testing/local-keelson.ts";
import { operatorKubeconfig, startOperatorProcess } from "../testing/operator-process.ts";
import { processesOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const namespace = "default";
const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  config: { redisConfig: { maxmemory: "64mb", databases: "16" } },
  components: [{ name: "redis", groups: [{ name: "nodes", replicas: 3, storage: { size: "64Mi" } }] }],
};
const isDone =
  (generation: number) =>
  (app: { readonly status?: unknown } | undefined): boolean => {
    const { plan, phase } = (app?.status ?? {}) as App["status"] & object;
    if (plan?.outcome === "Failed") throw new Error(JSON.stringify(app?.status, undefined, 1));
    return plan?.generation === generation && plan.outcome === "Succeeded" && phase === "Running";
  };
const groupIs = (client: Client, isReached: (status: Group["status"]) => boolean) =>
  watched(client, Group, "cache-redis-nodes", (group) => isReached(group?.status as Group["status"]));

/** Whether an operation has reached a step. Steps stay recorded, so a slow observer misses none. */
const hasStep =
  (action: string, target?: string) =>
  (status: Group["status"]): boolean =>
    status?.operation?.steps?.some(
      (step) => step.action.startsWith(action) && (target === undefined || step.target === target),
    ) ?? false;

/** A `keelson up` that is killed and restarted on the same directory, with a new client each time. */
async function startKillable(dir: string) {
  let keelson: TestKeelson = await startTestKeelson(dir, "--only", "cluster,middleware");
  let client = await keelson.client();
  return {
    get client() {
      return client;
    },
    get keelson() {
      return keelson;
    },
    async kill() {
      await client.close();
      keelson.process.child.kill("SIGKILL");
      expect(await keelson.process.exited).toBe("SIGKILL");
      keelson = await startTestKeelson(dir, "--only", "cluster,middleware");
      client = await keelson.client();
    },
    async end() {
      await keelson.kubectl("delete", "apps.middleware.io", "--all", "--ignore-not-found", "--timeout=45s");
      await keelson.kubectl("wait", "--for=delete", "pod", "--all", "--timeout=45s");
      await client.close();
      expect(await keelson.process.stop()).toBe(0);
    },
  };
}

const serversOf = (dir: string): readonly string[] =>
  processesOf(dir).flatMap(({ command }) => (command.includes("redis-server") ? [command] : []));
const podsOf = async (client: Client): Promise<readonly PodObject[]> =>
  (await client.list(Pod, { namespace, labelSelector: "middleware.io/app=cache" })).items as readonly PodObject[];
async function passwordOf(client: Client): Promise<string> {
  const secret = await client.get(Secret, { namespace, name: "cache-access" });
  return Buffer.from(secret.data?.["password"] ?? "", "base64").toString();
}

test("kill -9 of up, three times while an App is provisioned: provisioning completes, and no program runs twice", {
  timeout: 600_000,
}, async () => {
  using folder = temporaryFolder();
  const up = await startKillable(folder.path);
  onTestFinished(async () => void (await up.keelson.process.stop()));
  await up.client.create(App, { metadata: { name: "cache", namespace }, spec });
  await groupIs(up.client, (status) => status?.operation !== undefined);
  await up.kill();
  await groupIs(up.client, (status) => status?.pods?.some((pod) => pod.role !== "unknown") ?? false);
  const firstPods = (await podsOf(up.client)).map(({ metadata }) => metadata.uid);
  await up.kill();
  await groupIs(up.client, (status) => status?.primary !== undefined);
  await up.kill();
  const app = await watched(up.client, App, "cache", isDone(1));
  expect(app?.status?.plan?.tasks).toMatchObject([{ status: "done", attempt: 1 }]);
  expect((await podsOf(up.client)).map(({ metadata }) => metadata.uid)).toEqual(firstPods);
  expect(serversOf(folder.path)).toHaveLength(3);
  const group = await groupIs(up.client, (status) => status?.phase === "Running");
  expect(group?.status?.primary?.epoch).toBe(1);
  await up.end();
  expect(processesOf(folder.path)).toEqual([]);
});

test("kill -9 of up during a cold change under a live writer: each Pod restarts once, one switchover, no acknowledged write is lost", {
  timeout: 600_000,
}, async () => {
  using folder = temporaryFolder();
  const up = await startKillable(folder.path);
  onTestFinished(async () => void (await up.keelson.process.stop()));
  await up.client.create(App, { metadata: { name: "cache", namespace }, spec });
  await watched(up.client, App, "cache", isDone(1));
  const password = await passwordOf(up.client);
  const before = await podsOf(up.client);
  let addresses = before.map((pod) => pod.status?.podIP ?? "");
  const writer = startLiveWriter(() => addresses, password);
  onTestFinished(async () => void (await writer.stop()));
  const body = { spec: { config: { redisConfig: { maxmemory: "64mb", databases: "32" } } } };
  await up.client.patch(App, { namespace, name: "cache" }, { type: "merge", body });
  const learn = async (): Promise<void> => {
    const now = (await podsOf(up.client)).map((pod) => pod.status?.podIP ?? "").filter((ip) => ip !== "");
    addresses = [...new Set([...addresses, ...now])];
  };
  // During a replica restart, the switchover, and the restart of the old primary.
  await groupIs(up.client, hasStep("restarts"));
  await up.kill();
  await groupIs(up.client, hasStep("hands the primary role"));
  await learn();
  await up.kill();
  await groupIs(up.client, hasStep("restarts", "cache-redis-nodes-0"));
  await up.kill();
  const app = await watched(up.client, App, "cache", isDone(2));
  await learn();
  expect(app?.status?.plan?.tasks).toMatchObject([{ status: "done", attempt: 1 }]);
  const group = await groupIs(up.client, (status) => status?.phase === "Running");
  const steps = group?.status?.operation?.steps ?? [];
  expect(steps.filter((step) => step.action === "restarts").map((step) => step.target)).toEqual([
    "cache-redis-nodes-2",
    "cache-redis-nodes-1",
    "cache-redis-nodes-0",
  ]);
  expect(group?.status?.primary?.epoch).toBe(2);
  const { acknowledged } = await writer.stop();
  expect(acknowledged.size).toBeGreaterThan(100);
  const after = await podsOf(up.client);
  const primary = after.find((pod) => pod.metadata.name === group?.status?.primary?.pod)?.status?.podIP ?? "";
  const connection = await connectResp({ host: primary, port: 6379, password, timeoutMs: 5_000, clock: systemClock });
  expect(await connection.command("CONFIG", "GET", "databases")).toEqual(["databases", "32"]);
  const lost: string[] = [];
  for (const key of acknowledged) if ((await connection.command("GET", key)) !== key) lost.push(key);
  connection.close();
  expect(lost).toEqual([]);
  expect(serversOf(folder.path)).toHaveLength(3);
  await up.end();
  expect(processesOf(folder.path)).toEqual([]);
});

test("provisions an App from a separate process with exactly the documented permissions and a lease", {
  timeout: 600_000,
}, async () => {
  using folder = temporaryFolder();
  await using up = await startTestKeelson(folder.path, "--only", "cluster");
  const admin = await up.client();
  onTestFinished(() => admin.close());
  const kubeconfig = await operatorKubeconfig(up, admin, middleware, folder.path);
  await using operator = startOperatorProcess(middleware, kubeconfig, folder.path);
  await operator.printed(/^ready$/m);
  await admin.create(App, { metadata: { name: "cache", namespace }, spec });
  await watched(admin, App, "cache", isDone(1));
  const body = { spec: { config: { redisConfig: { maxmemory: "64mb", databases: "32" } } } };
  await admin.patch(App, { namespace, name: "cache" }, { type: "merge", body });
  await watched(admin, App, "cache", isDone(2));
  // No request was denied, and no unneeded permission is granted.
  expect(operator.output()).not.toMatch(/forbidden/i);
  const own = await connect({ kubeconfig });
  onTestFinished(() => own.close());
  const secret = own.delete(Secret, { namespace, name: "any" });
  await expect(secret).rejects.toSatisfy((error) => isStatusError(error, "Forbidden"));
  await expect(own.delete(App, { namespace, name: "cache" })).rejects.toSatisfy((error) => isStatusError(error, "Forbidden"));
  await up.kubectl("delete", "apps.middleware.io", "--all", "--timeout=45s");
  await up.kubectl("wait", "--for=delete", "pod", "--all", "--timeout=45s");
});
