import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { type Client, connect, type NewObject } from "@keelson/client";
import { findBubblewrap, openContainerdImages, openImage } from "@keelson/execution";
import { type LocalContainerd, createBusyboxImage, startLocalContainerd } from "@keelson/execution/testing";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { createFolder, removeFolder } from "../../folder.ts";
import { type LocalKeelson, startLocalKeelson } from "../../local-keelson.ts";
import { cpuMs, residentMiB } from "../../process-use.ts";

const inTurn = 15;
const together = 50;
const idleMs = 6_000;
/** Time to settle before the idle measurement. */
const settleMs = 1_000;
const namespace = "default";
const command = ["/bin/sleep", "10000"] as const;
const image = "example.org/busybox:1";

/** A container runtime, and the lower bound that its start time is compared with. */
interface Runtime {
  readonly name: "process" | "bubblewrap" | "containerd";
  readonly peer: { readonly name: string; words(index: number): readonly [string, ...string[]] };
}

/**
 * Pods as programs of this machine. First sequentially: from the request that creates a Pod, over HTTPS, to its condition
 * Ready in a watch, including scheduler and kubelet. Then many at the same time, and the resources of Keelson while they are idle.
 */
export const pods: Benchmark = {
  name: "pods",
  async run() {
    const dir = createFolder();
    const containerd = await startContainerd(dir);
    const flags = containerd === undefined ? [] : ["--containerd-address", containerd.socket];
    const keelson = await startLocalKeelson(join(dir, "k"), ...flags);
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    const figures: Figure[] = [];
    try {
      for (const runtime of runtimesOf(containerd?.socket)) figures.push(...(await latencies(client, runtime)));
      return [...figures, ...(await idle(client, keelson))];
    } finally {
      await removeAll(client);
      await client.close();
      await keelson.stop();
      await containerd?.stop();
      removeFolder(dir);
    }
  },
};

/** Starts a containerd with an image; `undefined` if this machine does not support it. */
async function startContainerd(dir: string): Promise<LocalContainerd | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const containerd = await startLocalContainerd(join(dir, "c")).catch(() => undefined);
  if (containerd === undefined) return undefined;
  const images = await openContainerdImages({ socket: containerd.socket, random: Math.random, now: Date.now });
  await createBusyboxImage(join(dir, "busybox.tar"));
  const archive = await openImage(join(dir, "busybox.tar"), { temporary: dir });
  await images.add(image, archive);
  await archive.close();
  return containerd;
}

function runtimesOf(containerd: string | undefined): readonly Runtime[] {
  const runtimes: Runtime[] = [{ name: "process", peer: { name: "spawn of the same program", words: () => command } }];
  const bwrap = findBubblewrap();
  if (bwrap !== undefined) {
    const words = [bwrap, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--die-with-parent", ...command] as const;
    runtimes.push({ name: "bubblewrap", peer: { name: "spawn of bwrap", words: () => words } });
  }
  if (containerd !== undefined) {
    const run = ["--address", containerd, "--namespace", "keelson", "run", "--rm", "--net-host", image] as const;
    const words = (index: number): readonly [string, ...string[]] => ["ctr", ...run, `bench-${index}`, "true"];
    runtimes.push({ name: "containerd", peer: { name: "ctr run of true", words } });
  }
  return runtimes;
}

/** Deletes all Pods and waits until they are deleted. */
async function removeAll(client: Client): Promise<void> {
  const watch = await client.watch(Pod, { namespace });
  const events = watch[Symbol.asyncIterator]();
  await client.deleteCollection(Pod, { namespace }, { gracePeriodSeconds: 0 });
  while ((await client.list(Pod, { namespace })).items.length > 0) await events.next();
  watch.close();
}

async function latencies(client: Client, { name: runtimeClassName, peer }: Runtime): Promise<Figure[]> {
  const ours: number[] = [];
  const spawns: number[] = [];
  const watch = await client.watch(Pod, { namespace });
  const events = watch[Symbol.asyncIterator]();
  for (let index = 0; index < inTurn; index++) {
    const name = `${runtimeClassName}-${index}`;
    const created = performance.now();
    await client.create(Pod, podOf(name, runtimeClassName));
    for (;;) {
      const { value: event, done } = await events.next();
      if (done) throw new Error("the watch of Pods ended");
      if (event.type !== "BOOKMARK" && event.object.metadata.name === name && isReady(event.object as PodObject)) break;
    }
    ours.push(performance.now() - created);
    await client.delete(Pod, { namespace, name }, { gracePeriodSeconds: 0 });
    const began = performance.now();
    const [program, ...rest] = peer.words(index);
    const child = spawn(program, rest, { stdio: "ignore" });
    // ctr exits with its container; the other commands are the program itself.
    await once(child, runtimeClassName === "containerd" ? "exit" : "spawn");
    spawns.push(performance.now() - began);
    child.kill();
  }
  watch.close();
  return [0.5, 0.99].map((fraction) => ({
    name: `Pod created -> Ready, ${runtimeClassName}, p${fraction * 100}`,
    unit: "ms" as const,
    ours: percentile(ours, fraction),
    peer: { name: peer.name, value: percentile(spawns, fraction) },
    note: `${inTurn} Pods, sequentially`,
  }));
}

async function idle(client: Client, keelson: LocalKeelson): Promise<Figure[]> {
  const { pid } = keelson.process.child;
  await sleep(settleMs);
  const before = { cpu: cpuMs(pid), memory: residentMiB(pid) };
  await sleep(idleMs / 2);
  const empty = percentOf(cpuMs(pid) - before.cpu, idleMs / 2);
  const ready = new Set<string>();
  const watch = await client.watch(Pod, { namespace });
  const began = performance.now();
  await Promise.all(Array.from({ length: together }, (_, index) => client.create(Pod, podOf(`many-${index}`))));
  for await (const event of watch) {
    if (event.type !== "BOOKMARK" && isReady(event.object as PodObject)) ready.add(event.object.metadata.name ?? "");
    if (ready.size === together) break;
  }
  watch.close();
  const allReady = performance.now() - began;
  await sleep(settleMs);
  const from = cpuMs(pid);
  await sleep(idleMs);
  const note = `${together} idle Pods`;
  return [
    { name: `${together} Pods created concurrently -> all Ready`, unit: "ms", ours: allReady },
    {
      name: "keelson up, CPU while Pods are idle, of one core",
      unit: "%",
      ours: percentOf(cpuMs(pid) - from, idleMs),
      peer: { name: "keelson up without Pods", value: empty },
      note,
    },
    {
      name: "keelson up, resident memory while Pods are idle",
      unit: "MiB",
      ours: residentMiB(pid),
      peer: { name: "keelson up without Pods", value: before.memory },
      note,
    },
  ];
}

const percentOf = (ms: number, ofMs: number): number => (ms / ofMs) * 100;

function podOf(name: string, runtimeClassName: Runtime["name"] = "process"): NewObject<PodObject> {
  return {
    metadata: { name, namespace },
    spec: { runtimeClassName, terminationGracePeriodSeconds: 0, containers: [{ name: "main", image, command: [...command] }] },
  };
}

const isReady = ({ status }: PodObject): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
