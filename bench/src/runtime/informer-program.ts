/*
 * Follows the Pods of a server with one of two clients, or only parses the events. Prints an `InformerRun`. Arguments: WHO SERVER PODS WARM
 * EVENTS, where WARM is the number of events before the measurement. Needs --expose-gc.
 */
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import type { KubernetesObject } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import type { KubernetesList } from "@keelson/api-machinery/transport";
import { createClient, createHttpTransport } from "@keelson/client";
import { createManager, readOf } from "@keelson/controller";
import type * as ClientNode from "@kubernetes/client-node";
import { importPeer } from "./import-peer.ts";

/** Measurements of one run. */
export interface InformerRun {
  readonly listMs: number;
  readonly bytesPerPod: number;
  readonly eventsPerSecond: number;
  /** CPU time of all threads, including garbage collection. */
  readonly cpuMicrosecondsPerEvent: number;
}

/** A running cache. */
interface Following {
  readonly size: () => number;
  stop(): Promise<void>;
}

const [who = "", server = "", ...counts] = process.argv.slice(2);
const [pods = 0, warm = 0, events = 0] = counts.map(Number);

/** Sends one request with the client, so that code loaded lazily is not attributed to the cache. */
async function warmUp(): Promise<void> {
  const client = createClient({ transport: createHttpTransport({ server }), fieldManager: "bench" });
  await client.list(Pod, { limit: 1 });
  await client.close();
  if (who !== "client-node") return;
  const peer = await loadPeer();
  await peerConfig(peer).makeApiClient(peer.CoreV1Api).listPodForAllNamespaces({ limit: 1 });
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

type Peer = typeof ClientNode;

const loadPeer = async (): Promise<Peer> => (await importPeer("@kubernetes/client-node")) as Peer;

function peerConfig({ KubeConfig: Config }: Peer): ClientNode.KubeConfig {
  const config = new Config();
  config.loadFromOptions({
    clusters: [{ name: "bench", server, skipTLSVerify: true }],
    users: [{ name: "bench" }],
    contexts: [{ name: "bench", cluster: "bench", user: "bench" }],
    currentContext: "bench",
  });
  return config;
}

async function followPeers(onUpdate: () => void): Promise<Following> {
  const peer = await loadPeer();
  const config = peerConfig(peer);
  const api = config.makeApiClient(peer.CoreV1Api);
  const informer = peer.makeInformer(config, "/api/v1/pods", () => api.listPodForAllNamespaces());
  informer.on("update", onUpdate);
  await informer.start();
  return { size: () => informer.list().length, stop: () => informer.stop() };
}

/** Only reads and parses lists and events: the lower bound for any client in JavaScript. */
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
/** Heap after garbage collection. Streams release their buffers some turns later. */
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
if (follow === undefined) throw new TypeError(`unknown client ${who}`);
const following = await follow(onUpdate);
const listMs = performance.now() - startedAt;
if (following.size() !== pods) throw new Error(`the cache has ${following.size()} of ${pods} Pods`);
const bytesPerPod = ((await heap()) - before) / pods;
await fetch(`${server}/go`, { method: "POST" });
const { user, system } = await all;
const eventsPerSecond = (events / (performance.now() - wentAt)) * 1000;
const cpuMicrosecondsPerEvent = (user + system) / events;
await following.stop();
console.log(JSON.stringify({ listMs, bytesPerPod, eventsPerSecond, cpuMicrosecondsPerEvent } satisfies InformerRun));
process.exit(0);
