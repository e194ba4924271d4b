import { existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { Pod, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, connect } from "@keelson/client";
import { App } from "@keelson/middleware";
import { connectResp } from "@keelson/middleware/testing";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";
import { MissingPeerError } from "../../missing-peer.ts";

const redisServer = "/usr/bin/redis-server";
const changes = 25;
const namespace = "default";
const name = "bench";

/**
 * A change of a Redis parameter that needs no restart, on three servers: from the request that changes the App's spec, over HTTPS, until
 * every server returns the new value, and from the creation of the task until it is done. The servers are polled every
 * millisecond.
 */
export const changeTask: Benchmark = {
  name: "change-task",
  async run() {
    if (!existsSync(redisServer))
      throw new MissingPeerError(`${redisServer} not found; install it with apt-get install redis-server`);
    const keelson = await startLocalKeelson();
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    try {
      return figuresOf(await measureChanges(client));
    } finally {
      await client.close();
      await keelson.stop();
    }
  },
};

/** Durations in ms, one of each kind per change. */
interface Samples {
  /** From the patch until it is effective on every server. */
  readonly effects: number[];
  /** From the creation of the change's task until it is done. */
  readonly tasks: number[];
  /** Of CONFIG SET on all servers without Keelson. */
  readonly direct: number[];
}

async function measureChanges(client: Client): Promise<Samples> {
  await client.create(App, {
    metadata: { name, namespace },
    spec: {
      plugin: { name: "redis", version: "1.0.0" },
      runtime: { name: "redis", version: "7.0" },
      config: { redisConfig: { maxmemory: "64mb" } },
      components: [{ name: "redis", groups: [{ name: "nodes", replicas: 3 }] }],
    },
  });
  const plans = followPlans(client);
  await plans.done(1);
  const servers = await connectServers(client);
  const samples: Samples = { effects: [], tasks: [], direct: [] };
  for (let index = 0; index < changes; index++) {
    const bytes = 67_108_864 + 1_048_576 * (index + 1);
    const started = performance.now();
    const body = { spec: { config: { redisConfig: { maxmemory: String(bytes) } } } };
    const change = client.patch(App, { namespace, name }, { type: "merge", body });
    await Promise.all(servers.map((server) => hasMaxMemory(server, bytes)));
    samples.effects.push(performance.now() - started);
    const { createdAt, doneAt } = await plans.done((await change).metadata.generation ?? 0);
    samples.tasks.push(doneAt - createdAt);
    samples.direct.push(await setByHand(servers, bytes + 1));
  }
  plans.stop();
  for (const server of servers) server.close();
  return samples;
}

/** Resolves when a server has this `maxmemory`. */
async function hasMaxMemory(server: Server, bytes: number): Promise<void> {
  while (String(await server.command("CONFIG", "GET", "maxmemory")) !== `maxmemory,${bytes}`) await setTimeout(1);
}

function figuresOf({ effects, tasks, direct }: Samples): readonly Figure[] {
  const note = `${changes} changes of maxmemory on 3 servers, sequentially`;
  return [0.5, 0.99].flatMap((fraction) => [
    {
      name: `App changed -> effective on every server, p${fraction * 100}`,
      unit: "ms" as const,
      ours: percentile(effects, fraction),
      peer: { name: "CONFIG SET on the 3 servers directly", value: percentile(direct, fraction) },
      original: { what: "waits 5 s before each Pod but the first", value: 10_000 },
      note,
    },
    {
      name: `Change task created -> done, p${fraction * 100}`,
      unit: "ms" as const,
      ours: percentile(tasks, fraction),
      original: { what: "polls tasks every 10 s", value: 10_000 },
      note,
    },
  ]);
}

type Server = Awaited<ReturnType<typeof connectResp>>;

async function connectServers(client: Client): Promise<readonly Server[]> {
  const secret = await client.get(Secret, { namespace, name: `${name}-access` });
  const password = Buffer.from(secret.data?.["password"] ?? "", "base64").toString();
  const pods = await client.list(Pod, { namespace, labelSelector: `middleware.io/app=${name}` });
  return Promise.all(
    pods.items.map(({ status }) =>
      connectResp({ host: status?.podIP ?? "", port: 6379, password, timeoutMs: 5_000, clock: systemClock }),
    ),
  );
}

/** The lower bound: the same commands on three open connections. */
async function setByHand(servers: readonly Server[], bytes: number): Promise<number> {
  const started = performance.now();
  for (const server of servers) await server.command("CONFIG", "SET", "maxmemory", String(bytes));
  return performance.now() - started;
}

/** Records when plans were created and done, by generation. */
function followPlans(client: Client) {
  const created = new Map<number, number>();
  const done = new Map<number, number>();
  const waiting = new Map<number, () => void>();
  const watching = client.watch(App, { namespace, fieldSelector: `metadata.name=${name}` });
  const following = (async () => {
    for await (const event of await watching) {
      if (event.type === "BOOKMARK") continue;
      const { plan } = event.object.status ?? {};
      if (plan === undefined) continue;
      if (!created.has(plan.generation)) created.set(plan.generation, performance.now());
      if (plan.outcome === undefined || done.has(plan.generation)) continue;
      if (plan.outcome !== "Succeeded") throw new Error(`plan ${plan.outcome}: ${JSON.stringify(plan.tasks)}`);
      done.set(plan.generation, performance.now());
      waiting.get(plan.generation)?.();
    }
  })();
  return {
    async done(generation: number): Promise<{ readonly createdAt: number; readonly doneAt: number }> {
      const seen = new Promise<void>((resolve) => {
        waiting.set(generation, resolve);
        if (done.has(generation)) resolve();
      });
      await Promise.race([seen, following]);
      return { createdAt: created.get(generation) ?? 0, doneAt: done.get(generation) ?? 0 };
    },
    stop: () => void watching.then((watch) => watch.close()),
  };
}
