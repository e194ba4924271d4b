import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type DeepReadonly, ignoreNotFound, type Stored } from "@keelson/api-machinery";
import { ConfigMap, PersistentVolume, Pod, type PodObject, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { startKubelet } from "@keelson/cluster";
import { garbageCollection, reserveAddressBlock } from "@keelson/cluster/testing";
import { createVolumeControllers, createWorkloadControllers, ensureStandardClass } from "@keelson/cluster/controllers";
import { createManager, type Logger, silentLogger } from "@keelson/controller";
import type { PluginDefinition } from "@keelson/middleware-agent";
import { startOperator } from "@keelson/operator";
import { connectResp, type Reply } from "../agent/redis/resp-client.ts";
import type { RedisTls } from "../agent/redis/redis-tls.ts";
import { App } from "../api/app.ts";
import { Group } from "../api/group.ts";
import { authorityKey, authorityName } from "../api/names.ts";
import { createMiddleware } from "../operator.ts";
import { bundledAgent } from "./agent-bundle.ts";
import { startLiveWriter, type WriterReport } from "./live-writer.ts";

const namespace = "default";
const appName = "cache";
const redisAgentMain = fileURLToPath(new URL("../../dist/agent/main.js", import.meta.url));

/** A write workload that follows the Pods of the App wherever they are. */
export interface TrackedWriter {
  /** Stops writing. `lost`: acknowledged writes that the current primary does not have. */
  stop(): Promise<WriterReport & { readonly lost: readonly string[] }>;
  readonly count: number;
}

/** The operator with an API server, a kubelet that runs programs, and one App of real Redis servers. */
export interface RedisEnvironment extends AsyncDisposable {
  readonly client: Client;
  /** Errors that the controllers logged. */
  readonly errors: readonly string[];
  createApp(spec: App["spec"]): Promise<void>;
  /** Merges into the App's spec. Resolves to the new generation. */
  changeApp(spec: object): Promise<number>;
  /** Waits until the plan of a generation has succeeded. */
  settled(generation: number): Promise<void>;
  /** Waits until the App satisfies a predicate. */
  untilApp(isReached: (app: DeepReadonly<App>) => boolean): Promise<DeepReadonly<App>>;
  group(): Promise<Stored<Group>>;
  /** Waits until the Group satisfies a predicate. */
  untilGroup(isReached: (group: DeepReadonly<Group>) => boolean): Promise<DeepReadonly<Group>>;
  pods(): Promise<readonly DeepReadonly<PodObject>[]>;
  /** Address of the recorded primary. */
  primary(): Promise<string>;
  /** Runs a command on a server. */
  command(host: string, ...words: readonly string[]): Promise<Reply>;
  /** Runs a command of the Sentinel protocol on the agent at an address. */
  sentinel(host: string, ...words: readonly string[]): Promise<Reply>;
  startWriter(): Promise<TrackedWriter>;
  /** Stops the controllers of the operator. Pods and the kubelet continue. */
  stopOperator(): Promise<void>;
  /** Starts the controllers again. */
  startOperator(): Promise<void>;
}

/** Options of {@link startRedisEnvironment} for the App of another plugin. */
export interface EnvironmentOptions {
  readonly plugins?: readonly PluginDefinition[];
  /** Program of the agent. */
  readonly agentMain?: string;
  /** Name of the Group. */
  readonly group?: string;
}

/** Starts a {@link RedisEnvironment}. Needs the built agent and redis-server. */
export async function startRedisEnvironment({
  plugins = [],
  agentMain = redisAgentMain,
  group: groupName = `${appName}-redis-nodes`,
}: EnvironmentOptions = {}): Promise<RedisEnvironment> {
  const middleware = createMiddleware({
    agentCommand: [process.execPath, bundledAgent(agentMain)],
    // The agent of another plugin transfers nothing.
    transferCommand: [process.execPath, bundledAgent(redisAgentMain), "transfer"],
    plugins,
  });
  const errors: string[] = [];
  const log: Logger = {
    ...silentLogger,
    child: () => log,
    error: (fields: unknown, message?: string) =>
      errors.push(`${message ?? ""} ${JSON.stringify(fields)} ${String((fields as { err?: unknown }).err)}`),
  } as Logger;
  const environment = await startTestEnvironment({
    crds: middleware.resources.map((resource) => resource.crd),
    controllers: [garbageCollection],
  });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const dataDir = await mkdtemp(join(tmpdir(), "middleware-e2e-"));
  await ensureStandardClass(client);
  const cluster = createManager({
    name: "kube-controller-manager",
    client,
    logger: log,
    controllers: [...createWorkloadControllers(), ...createVolumeControllers({ directory: join(dataDir, "volumes") })],
  });
  await cluster.start();
  // Acts as the node does for a hostPath of type DirectoryOrCreate.
  const volumes = await client.watch(PersistentVolume);
  void (async () => {
    for await (const event of volumes) {
      const path = (event.object as { spec?: { hostPath?: { path?: string } } }).spec?.hostPath?.path;
      if (path !== undefined) await mkdir(path, { recursive: true });
    }
  })();
  const common = { client, clock: systemClock, random: Math.random, log: silentLogger };
  const block = await reserveAddressBlock(dataDir);
  const kubelet = await startKubelet({
    ...common,
    dataDir: join(dataDir, "kubelet"),
    nodeName: "here",
    podNetwork: block.podNetwork,
  });
  const start = () => startOperator({ operator: middleware, client, dataDir, logger: log });
  let operator = await start();

  const password = async (): Promise<string> => {
    const secret = await client.get(Secret, { namespace, name: `${appName}-access` });
    return Buffer.from(secret.data?.password ?? "", "base64").toString();
  };
  const pods = async (): Promise<readonly DeepReadonly<PodObject>[]> =>
    (await client.list(Pod, { namespace, labelSelector: `middleware.io/group=${groupName}` })).items;
  const group = (): Promise<Stored<Group>> => client.get(Group, { namespace, name: groupName });
  const primary = async (): Promise<string> => {
    const { status } = await group();
    return (await pods()).find((pod) => pod.metadata.name === status?.primary?.pod)?.status?.podIP ?? "";
  };
  /** With the published authorities, if the App has TLS. */
  const tls = async (port: number, mode: "prefer" | "require" = "prefer"): Promise<RedisTls | undefined> => {
    const published = await ignoreNotFound(client.get(ConfigMap, { namespace, name: authorityName(appName) }));
    const authorities = published?.data?.[authorityKey];
    return authorities === undefined ? undefined : { port, mode, authorities: () => authorities };
  };
  const connect = async (host: string, port = 6379) => {
    const own = { password: await password(), tls: await tls(port === 6379 ? 6380 : port) };
    return connectResp({ host, port, ...own, timeoutMs: 3_000, clock: systemClock });
  };
  const run = async (host: string, port: number, words: readonly string[]): Promise<Reply> => {
    const connection = await connect(host, port);
    try {
      return await connection.command(...words);
    } finally {
      connection.close();
    }
  };

  return {
    client,
    errors,
    pods,
    group,
    primary,
    stopOperator: () => operator.stop(),
    async startOperator() {
      operator = await start();
    },
    async createApp(spec) {
      await client.create(App, { metadata: { name: appName, namespace }, spec });
    },
    async changeApp(spec) {
      const patched = await client.patch(App, { namespace, name: appName }, { type: "merge", body: { spec } });
      return patched.metadata.generation ?? 0;
    },
    async settled(generation) {
      await watched(client, App, appName, (app) => {
        if (app?.status?.plan?.outcome === "Failed" || app?.status?.phase === "Failed")
          throw new Error(JSON.stringify(app.status, undefined, 1));
        return app?.status?.plan?.generation === generation && app.status.plan.outcome === "Succeeded";
      });
    },
    async untilApp(isReached) {
      const app = await watched(client, App, appName, (each) => each !== undefined && isReached(each));
      if (app === undefined) throw new Error("the App was deleted");
      return app;
    },
    async untilGroup(isReached) {
      const found = await watched(client, Group, groupName, (each) => each !== undefined && isReached(each));
      if (found === undefined) throw new Error("the Group was deleted");
      return found;
    },
    command: (host, ...words) => run(host, 6379, words),
    sentinel: (host, ...words) => run(host, 26379, words),
    async startWriter() {
      let addresses = (await pods()).flatMap((pod) => pod.status?.podIP ?? []);
      const watch = await client.watch(Pod, { namespace });
      void (async () => {
        for await (const event of watch) {
          const ip = event.type === "BOOKMARK" ? undefined : (event.object as PodObject).status?.podIP;
          if (ip !== undefined && ip !== "" && !addresses.includes(ip)) addresses = [...addresses, ip];
        }
      })();
      let current = await tls(6380);
      const authorities = await client.watch(ConfigMap, { namespace });
      void (async () => {
        for await (const event of authorities) {
          const { name } = (event.object as PodObject).metadata;
          if (event.type !== "BOOKMARK" && name === authorityName(appName)) current = await tls(6380);
        }
      })();
      const writer = startLiveWriter(
        () => addresses,
        await password(),
        6379,
        () => current,
      );
      return {
        get count() {
          return writer.count;
        },
        async stop() {
          const report = await writer.stop();
          watch.close();
          authorities.close();
          const connection = await connect(await primary());
          const lost: string[] = [];
          for (const key of report.acknowledged) if ((await connection.command("GET", key)) !== key) lost.push(key);
          connection.close();
          return { ...report, lost };
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await operator.stop();
      // A controller may delete it at the same time.
      for (const { metadata } of (await client.list(Pod)).items)
        await ignoreNotFound(
          client.delete(Pod, { namespace: metadata.namespace, name: metadata.name }, { gracePeriodSeconds: 1 }),
        );
      for (const { metadata } of (await client.list(Pod)).items)
        await watched(client, Pod, metadata.name, (each) => each === undefined);
      await kubelet.stop();
      await block.release();
      volumes.close();
      await cluster.stop();
      await environment.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
