/*
 * Follows the Pods of a server with one of two clients, or only parses what it sends, and prints: time from start to all in the cache, heap per cached Pod,
 * changes a second from the watch into the cache and to one handler, once the program is warm. Arguments: WHO SERVER PODS WARM EVENTS, where WARM are
 * the changes before those that are measured. Needs --expose-gc.
 */
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import type { KubernetesObject } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import type { KubernetesList } from "@keelson/api-machinery/transport";
import { createClient, createHttpTransport } from "@keelson/client";
import { createManager, readOf } from "@keelson/controller";
import { CoreV1Api, KubeConfig, makeInformer } from "@kubernetes/client-node";

/** What one run measured. */
export interface InformerRun {
  readonly listMs: number;
  readonly bytesPerPod: number;
  readonly eventsPerSecond: number;
  /** Of all threads, so with the collection of garbage. */
  readonly cpuMicrosecondsPerEvent: number;
}

/** A cache that follows the server. */
interface Following {
  readonly size: () => number;
  stop(): Promise<void>;
}

const [who = "", server = "", ...counts] = process.argv.slice(2);
const [pods = 0, warm = 0, events = 0] = counts.map(Number);

/** One request of each client beforehand: what they load for it is not the cache's. */
async function warmUp(): Promise<void> {
  const client = createClient({ transport: createHttpTransport({ server }), fieldManager: "bench" });
  await client.list(Pod, { limit: 1 });
  await client.close();
  await peerConfig().makeApiClient(CoreV1Api).listPodForAllNamespaces({ limit: 1 });
}

async function followOurs(onUpdate: () => void): Promise<Following> {
  const client = createClient({ transport: createHttpTransport({ server }), fieldManager: "bench" });
  const manager = createManager({ client, name: "bench", controllers: [], reads: [readOf(Pod)] });
  await manager.startCaches();
  manager.onChange(Pod, onUpdate);
  return {
    size: () => manager.cache.list(Pod).length,
    async stop() {
      await manager.stop();
      await client.close();
    },
  };
}

function peerConfig(): KubeConfig {
  const config = new KubeConfig();
  config.loadFromOptions({
    clusters: [{ name: "bench", server, skipTLSVerify: true }],
    users: [{ name: "bench" }],
    contexts: [{ name: "bench", cluster: "bench", user: "bench" }],
    currentContext: "bench",
  });
  return config;
}

async function followPeers(onUpdate: () => void): Promise<Following> {
  const config = peerConfig();
  const api = config.makeApiClient(CoreV1Api);
  const informer = makeInformer(config, "/api/v1/pods", () => api.listPodForAllNamespaces());
  informer.on("update", onUpdate);
  await informer.start();
  return { size: () => informer.list().length, stop: () => informer.stop() };
}

/** Reads lists and events and parses them, and that is all: what no client of this language can do without. */
async function parseOnly(onUpdate: () => void): Promise<Following> {
  let size = 0;
  for (let next: string | undefined = ""; next !== undefined; ) {
    const page = (await (
      await fetch(`${server}/api/v1/pods?limit=500&continue=${next}`)
    ).json()) as KubernetesList<KubernetesObject>;
    size += page.items.length;
    next = page.metadata.continue;
  }
  const [watch] = (await once(get(`${server}/api/v1/pods?watch=true`), "response")) as [IncomingMessage];
  let rest: Buffer = Buffer.alloc(0);
  watch.on("data", (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, start)) {
      JSON.parse(bytes.toString("utf8", start, end));
      start = end + 1;
      onUpdate();
    }
    rest = bytes.subarray(start);
  });
  return { size: () => size, stop: async () => void watch.destroy() };
}

const collect = globalThis.gc;
if (collect === undefined) throw new Error("run with --expose-gc");
/** What is reachable, after what is not has been given up: streams free their buffers some turns later. */
const heap = async (): Promise<number> => {
  for (let turn = 0; turn < 5; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    collect();
  }
  return process.memoryUsage().heapUsed;
};

let seen = 0;
let wentAt = 0;
let cpuBefore = process.cpuUsage();
let finished: (cpu: NodeJS.CpuUsage) => void = () => {};
const all = new Promise<NodeJS.CpuUsage>((resolve) => {
  finished = resolve;
});
const onUpdate = (): void => {
  seen++;
  if (seen === warm) {
    wentAt = performance.now();
    cpuBefore = process.cpuUsage();
  } else if (seen === warm + events) finished(process.cpuUsage(cpuBefore));
};
await warmUp();
const before = await heap();
const startedAt = performance.now();
const follow = { ours: followOurs, "client-node": followPeers, parse: parseOnly }[who];
if (follow === undefined) throw new Error(`there is no ${who}`);
const following = await follow(onUpdate);
const listMs = performance.now() - startedAt;
if (following.size() !== pods) throw new Error(`${following.size()} of ${pods} Pods are in the cache`);
const bytesPerPod = ((await heap()) - before) / pods;
await fetch(`${server}/go`, { method: "POST" });
const { user, system } = await all;
const eventsPerSecond = (events / (performance.now() - wentAt)) * 1000;
const cpuMicrosecondsPerEvent = (user + system) / events;
await following.stop();
console.log(JSON.stringify({ listMs, bytesPerPod, eventsPerSecond, cpuMicrosecondsPerEvent } satisfies InformerRun));
process.exit(0);
