import { execFileSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Condition, isConditionTrue } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { type Client, connect } from "@keelson/client";
import { RhinoJob } from "@keelson/mpi";
import type { Benchmark, Figure } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";
import { MissingPeerError } from "../../missing-peer.ts";
import { findAgent, findJobProcesses, type JobProcesses, portsOf } from "../../mpi/job-processes.ts";

const namespace = "default";
const source = fileURLToPath(new URL("../../../src/mpi/sleeping-rank.c", import.meta.url));
const implementations = ["OpenMPI", "MPICH"] as const;
/** Time after which a fault counts as not reported. */
const reportTimeoutMs = 30_000;
/** Maximum time for a job to start or to be deleted. */
const stepTimeoutMs = 120_000;
const pollMs = 5;

/** What happens to a running job of two ranks. */
interface Fault {
  readonly name: string;
  /** Whether the workers are kept from joining. Default: the program runs. */
  readonly isBeforeJoining?: boolean;
  /** Causes the fault, and returns when that was. */
  inject(job: Target): Promise<number> | number;
  /** Removes its leftovers. */
  undo?(): void;
}

interface Target {
  readonly client: Client;
  readonly name: string;
  readonly processes: () => JobProcesses;
}

const signal =
  (victim: keyof JobProcesses, how: NodeJS.Signals) =>
  ({ processes }: Target): number =>
    kill(processes()[victim], how);

/** Sends a signal. Returns the time. */
function kill(pid: number, how: NodeJS.Signals): number {
  const time = performance.now();
  process.kill(pid, how);
  return time;
}

const faults: readonly Fault[] = [
  { name: "rank 1 killed", inject: signal("rank", "SIGKILL") },
  { name: "rank 1 crashed (SIGSEGV)", inject: signal("rank", "SIGSEGV") },
  { name: "MPI daemon of worker 1 killed", inject: signal("daemon", "SIGKILL") },
  { name: "mpiexec killed", inject: signal("mpiexec", "SIGKILL") },
  { name: "worker 1 killed", inject: signal("worker", "SIGKILL") },
  { name: "worker 1 killed before joining", isBeforeJoining: true, inject: killWaitingWorker },
  { name: "worker 1 frozen", inject: signal("worker", "SIGSTOP") },
  { name: "Pod of worker 1 deleted", inject: (target) => deletePod(target, "worker") },
  { name: "launcher killed", inject: signal("launcher", "SIGKILL") },
  { name: "launcher frozen", inject: signal("launcher", "SIGSTOP") },
  { name: "Pod of the launcher deleted", inject: (target) => deletePod(target, "launcher") },
  // In its own network namespace only: the rules affect every program.
  ...(isOwnNetwork() ? [{ name: "worker 1 cut off the network", inject: cutOff, undo: restoreNetwork }] : []),
];

/**
 * The kill matrix: what is killed, frozen or cut off in a running job of two ranks, the time until its status is Failed, and the status's message.
 * Needs both MPIs. The network is only cut in its own network namespace: `unshare -n sh -c 'ip link set lo up; npm run bench -- --only mpi-kills'`.
 */
export const mpiKills: Benchmark = {
  name: "mpi-kills",
  async run() {
    for (const each of implementations)
      if (!existsSync(compilerOf(each))) throw new MissingPeerError(`${compilerOf(each)} not found`);
    const keelson = await startLocalKeelson();
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    const figures: Figure[] = [];
    try {
      for (const implementation of implementations) {
        const folder = join(keelson.dir, implementation.toLowerCase());
        execFileSync("mkdir", [folder]);
        execFileSync(compilerOf(implementation), ["-o", join(folder, "sleeping-rank"), source]);
        for (const [index, fault] of faults.entries()) {
          const name = `${implementation.toLowerCase()}-${index}`;
          figures.push(await measure(client, { name, fault, folder, implementation }));
        }
      }
      return figures;
    } finally {
      await client.close();
      await keelson.stop();
    }
  },
};

async function measure(
  client: Client,
  options: { name: string; fault: Fault; folder: string; implementation: (typeof implementations)[number] },
): Promise<Figure> {
  const { name, fault, folder, implementation } = options;
  const up = [0, 1].map((rank) => join(folder, `up-${rank}`));
  for (const file of up) rmSync(file, { force: true });
  const spec = specOf(folder, implementation, fault.isBeforeJoining === true);
  const { metadata } = await client.create(RhinoJob, { metadata: { name, namespace }, spec });
  const processes = (): JobProcesses => findJobProcesses(metadata.uid);
  const statusOf = async (): Promise<RhinoJob["status"]> =>
    (await client.get(RhinoJob, { namespace, name })).status as RhinoJob["status"];
  if (fault.isBeforeJoining === true) {
    const areCreated = (status: RhinoJob["status"]): boolean =>
      isConditionTrue(status?.conditions as readonly Condition[] | undefined, "WorkersCreated");
    await until(`creation of the workers of ${name}`, async () => areCreated(await statusOf()));
  } else {
    await until(`start of the ranks of ${name}`, () => up.every((file) => existsSync(file)));
    await until(`status Running of ${name}`, async () => (await statusOf())?.jobStatus === "Running");
  }
  let status: RhinoJob["status"];
  let ours: number;
  try {
    const time = await fault.inject({ client, name, processes });
    const isOver = async (): Promise<boolean> => {
      status = await statusOf();
      return ["Failed", "Completed"].includes(status?.jobStatus ?? "") || performance.now() - time > reportTimeoutMs;
    };
    await until(`end of ${name}`, isOver);
    ours = performance.now() - time;
  } finally {
    fault.undo?.();
  }
  if (status?.jobStatus === "Completed") throw new Error(`${name} is Completed after the fault "${fault.name}"`);
  await client.delete(RhinoJob, { namespace, name }, { propagationPolicy: "Foreground" });
  await until(`end of the Pods of ${name}`, async () => (await client.list(Pod, { namespace })).items.length === 0);
  const message = status?.jobStatus === "Failed" ? (status.message ?? "") : "not reported";
  return { name: `${implementation}: ${fault.name} -> Failed`, unit: "ms", ours, note: message };
}

const compilerOf = (implementation: (typeof implementations)[number]): string =>
  `/usr/bin/mpicc.${implementation.toLowerCase()}`;

function specOf(folder: string, implementation: (typeof implementations)[number], areWorkersHeld: boolean): RhinoJob["spec"] {
  const wait =
    "data:text/javascript,process.title='keelson-mpi-worker';await new Promise((resolve)=>setTimeout(resolve,60000))";
  const env = [{ name: "NODE_OPTIONS", value: `--import="${wait}"` }];
  return {
    image: "local",
    parallelism: 2,
    ttl: 600,
    appExec: join(folder, "sleeping-rank"),
    appArgs: [folder],
    memoryAllocationMode: "FixedPerCoreMemory",
    memoryAllocationSize: 2,
    mpiImplementation: implementation,
    ...(areWorkersHeld ? { workerTemplate: { spec: { containers: [{ env }] } } } : {}),
  };
}

async function killWaitingWorker(): Promise<number> {
  let pid: number | undefined;
  await until("start of worker 1", () => (pid = findAgent("worker", { JOB_COMPLETION_INDEX: "1" })) !== undefined);
  if (pid === undefined) throw new Error("worker 1 not found");
  return kill(pid, "SIGKILL");
}

async function deletePod({ client, name }: Target, type: string): Promise<number> {
  const { items } = await client.list(Pod, { namespace, labelSelector: `app=${name},type=${type}` });
  const pod = items.find((each) => type === "launcher" || each.metadata.name?.includes("-workers-1-"));
  // A request without a name would delete every Pod.
  if (pod?.metadata.name === undefined) throw new Error(`${type} Pod of ${name} not found`);
  const time = performance.now();
  await client.delete(Pod, { namespace, name: pod.metadata.name });
  return time;
}

/** Drops all packets of the connections that worker 1 has. By port, because connections on the loopback interface do not have the Pod's address. */
function cutOff({ processes }: Target): number {
  const ports = portsOf(processes().worker).join(", ");
  const rules = `add table inet kills; add chain inet kills in { type filter hook input priority 0; }
    add rule inet kills in tcp sport { ${ports} } drop; add rule inet kills in tcp dport { ${ports} } drop`;
  const time = performance.now();
  execFileSync("nft", [rules]);
  return time;
}

function restoreNetwork(): void {
  execFileSync("nft", ["add table inet kills; delete table inet kills"]);
}

/** A network namespace without a way out has the loopback interface only. */
function isOwnNetwork(): boolean {
  return Object.keys(networkInterfaces()).every((name) => name === "lo");
}

async function until(what: string, isReached: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + stepTimeoutMs;
  while (!(await isReached())) {
    if (performance.now() > deadline) throw new Error(`${what}: not reached within ${stepTimeoutMs / 1000} s`);
    await sleep(pollMs);
  }
}
