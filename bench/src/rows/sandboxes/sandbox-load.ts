import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import { type Client, connect } from "@keelson/client";
import { createFastPathClient, type FastPathClient, Sandbox, SandboxPool } from "@keelson/sandboxes";
import { startKeelson, upArguments } from "keelson/testing";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { createFolder, removeFolder } from "../../folder.ts";

const namespace = "default";
const sequential = 30;
const clients = 16;
const cyclesPerClient = 20;
/** Cycles before the first and between both counts of what is left over. */
const flatCycles = 200;
const capacity = 400;
/** Leaves time to prepare a slot; the pool's status, which says when it is ready, may be 5 s old. */
const refillMs = 100;

/**
 * FAST creates over gRPC in prepared slots and without, deletes, the throughput of several clients, and what is left after many cycles. Next
 * to the start of bwrap with the same program, without network, limits, user or filter.
 */
export const sandboxLoad: Benchmark = {
  name: "sandbox-load",
  async run() {
    const dir = createFolder();
    const keelson = startKeelson(upArguments(dir, "--only", "apiserver,cluster,sandboxes"));
    try {
      const [, baseUrl = ""] = await keelson.printed(/fast path \(gRPC\) on (http:\S+),/);
      await keelson.printed(/^ready$/m);
      const token = readFileSync(join(dir, "keelson", "sandboxes", "fastpath-token"), "utf8").trim();
      const { fastPath } = createFastPathClient({ baseUrl, token });
      const client = await connect({ kubeconfig: join(dir, "keelson", "kubeconfig") });
      const load = new Load(fastPath, client);
      await load.createPool("cold", {});
      await load.createPool("shell", { shells: 4 });
      await load.createPool("image", { perImage: 4 });
      const starts = await measureStarts(load);
      const throughput = await measureThroughput(load);
      const left = await measureLeftovers(load, dir);
      await client.close();
      return [...starts, ...throughput, ...left];
    } finally {
      await keelson.stop();
      removeFolder(dir);
    }
  },
};

interface Cycle {
  readonly createMs: number;
  /** The driver's share of the create. */
  readonly startMs: number | undefined;
  readonly deleteMs: number;
  readonly isWarm: boolean;
}

/** Creates and deletes sandboxes. */
class Load {
  readonly #fastPath: FastPathClient["fastPath"];
  readonly #client: Client;
  #count = 0;

  constructor(fastPath: FastPathClient["fastPath"], client: Client) {
    this.#fastPath = fastPath;
    this.#client = client;
  }

  async createPool(name: string, warm: NonNullable<SandboxPool["spec"]["warm"]>): Promise<void> {
    const spec = { capacity: { poolMin: 1, poolMax: 1 }, maxSandboxesPerPod: capacity, warm };
    await this.#client.create(SandboxPool, { metadata: { name, namespace }, spec });
    await this.#until(name, ({ status }) => status?.readyPods === 1);
  }

  /** Waits until all slots of a pool are ready. */
  whenWarm(name: string): Promise<void> {
    return this.#until(name, ({ status }) => status?.warm === undefined || status.warm.ready >= status.warm.desired);
  }

  /** Creates and deletes a sandbox. Returns how long each call took, and whether the sandbox started in a slot. */
  async cycle(pool: string): Promise<Cycle> {
    const name = `load-${this.#count++}`;
    const began = performance.now();
    const { timings } = await this.#fastPath.createSandbox({
      name,
      image: "host",
      poolRef: pool,
      command: ["/bin/sleep", "600"],
    });
    const created = performance.now();
    await this.#fastPath.deleteSandbox({ sandboxName: name });
    const { start: startMs, warm } = timings;
    return { createMs: created - began, startMs, deleteMs: performance.now() - created, isWarm: warm !== undefined };
  }

  /** Waits until no sandbox is left. */
  async settle(): Promise<void> {
    while ((await this.#client.list(Sandbox, { namespace })).items.length > 0) await pause(100);
  }

  async #until(name: string, isDone: (pool: DeepReadonly<SandboxPool>) => boolean): Promise<void> {
    while (!isDone(await this.#client.get(SandboxPool, { namespace, name }))) await pause(50);
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function measureStarts(load: Load): Promise<readonly Figure[]> {
  const pools = ["cold", "shell", "image"] as const;
  const created = new Map<string, number[]>(pools.map((pool) => [pool, []]));
  const started = new Map<string, number[]>(pools.map((pool) => [pool, []]));
  const deleted: number[] = [];
  const bare: number[] = [];
  const hits = new Map<string, number>(pools.map((pool) => [pool, 0]));
  for (let index = 0; index < sequential; index++) {
    for (const pool of pools) {
      await pause(refillMs);
      const { createMs, startMs, deleteMs, isWarm } = await load.cycle(pool);
      created.get(pool)?.push(createMs);
      if (startMs !== undefined) started.get(pool)?.push(startMs);
      deleted.push(deleteMs);
      if (isWarm) hits.set(pool, (hits.get(pool) ?? 0) + 1);
    }
    await load.settle();
    bare.push(startBubblewrap());
  }
  const figures = pools.flatMap((pool) =>
    [0.5, 0.99].map(
      (fraction): Figure => ({
        name: `CreateSandbox FAST, ${pool}, p${fraction * 100}`,
        unit: "ms",
        ours: percentile(created.get(pool) ?? [], fraction),
        peer: { name: "bwrap /bin/true", value: percentile(bare, fraction) },
        note: `${sequential} sequentially, ${hits.get(pool) ?? 0} in a slot`,
      }),
    ),
  );
  const parts = pools.map(
    (pool): Figure => ({
      name: `  FAST, ${pool}, stage start, p50`,
      unit: "ms",
      ours: percentile(started.get(pool) ?? [], 0.5),
    }),
  );
  return [...figures, ...parts, { name: "DeleteSandbox, p50", unit: "ms", ours: percentile(deleted, 0.5) }];
}

/** Time from the call to the end of a program in its own namespaces. */
function startBubblewrap(): number {
  const folders = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"];
  const links = ["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"];
  const began = performance.now();
  spawnSync("bwrap", [...folders, ...links, "--unshare-all", "--", "/bin/true"], { stdio: "ignore" });
  return performance.now() - began;
}

async function measureThroughput(load: Load): Promise<readonly Figure[]> {
  const run = async (count: number): Promise<number> => {
    const began = performance.now();
    const client = async (): Promise<void> => {
      for (let index = 0; index < cyclesPerClient; index++) await load.cycle("shell");
    };
    await Promise.all(Array.from({ length: count }, client));
    const seconds = (performance.now() - began) / 1000;
    await load.settle();
    return (count * cyclesPerClient) / seconds;
  };
  const one = await run(1);
  const many = await run(clients);
  const name = `create and delete, ${clients} clients`;
  return [
    { name, unit: "1/s", ours: many, peer: { name: "1 client", value: one }, note: `${cyclesPerClient} cycles per client` },
  ];
}

interface Leftovers {
  readonly descriptors: number;
  readonly mounts: number;
  readonly cgroups: number;
  readonly files: number;
  readonly residentMiB: number;
}

async function measureLeftovers(load: Load, dir: string): Promise<readonly Figure[]> {
  const run = async (): Promise<Leftovers> => {
    for (let index = 0; index < flatCycles; index += 4)
      await Promise.all(["shell", "image", "shell", "image"].map((pool) => load.cycle(pool)));
    await load.settle();
    await Promise.all(["shell", "image"].map((pool) => load.whenWarm(pool)));
    return countLeftovers(dir);
  };
  const before = await run();
  const after = await run();
  return (["descriptors", "mounts", "cgroups", "files", "residentMiB"] as const).map((key) => ({
    name: `  agents' ${key === "residentMiB" ? "memory" : key} after ${2 * flatCycles} cycles`,
    unit: key === "residentMiB" ? ("MiB" as const) : ("" as const),
    ours: after[key],
    peer: { name: `after ${flatCycles}`, value: before[key] },
  }));
}

function countLeftovers(dir: string): Leftovers {
  const agents = agentPids(dir);
  const count = (path: string): number => (existsSync(path) ? readdirSync(path).length : 0);
  const groups = count("/sys/fs/cgroup") > 0 ? readdirSync("/sys/fs/cgroup") : [];
  const parents = ["", ...groups].map((group) => join("/sys/fs/cgroup", group, "keelson/sandboxes"));
  const resident = (pid: string): number =>
    Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1] ?? 0) / 1024;
  return {
    descriptors: agents.reduce((sum, pid) => sum + count(`/proc/${pid}/fd`), 0),
    // Each has its own mount namespace.
    mounts: agents.reduce((sum, pid) => sum + readFileSync(`/proc/${pid}/mountinfo`, "utf8").split("\n").length, 0),
    cgroups: parents.reduce(
      (sum, parent) => sum + (existsSync(parent) ? readdirSync(parent).filter(isProgramGroup).length : 0),
      0,
    ),
    files: readdirSync(join(dir, "keelson", "sandboxes"), { recursive: true }).length,
    residentMiB: agents.reduce((sum, pid) => sum + resident(pid), 0),
  };
}

const isProgramGroup = (name: string): boolean => /^keelson-[0-9a-f]{16}$/.test(name);

/** The agents whose directories are below `dir`. */
function agentPids(dir: string): readonly string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const isNode = readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("node");
      return isNode && readFileSync(`/proc/${pid}/environ`, "latin1").includes(`AGENT_DIR=${dir}`);
    } catch {
      return false;
    }
  });
}
