import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type PodProcess, startLauncherProcess, startWorkerProcess } from "../testing/pod-processes.ts";
import type { LaunchOrder } from "./pod-environment.ts";
import { launcherLostExitCode, launchFailedExitCode } from "./exit-codes.ts";

const token = "a-token-of-this-test";
const launcherIP = "10.99.0.1";

/** Two machines with a cable between them, as network namespaces that end with their processes. */
interface Machines {
  readonly first: readonly string[];
  readonly second: readonly string[];
  unplug(): void;
}

let folder: string;
let machines: Machines;
const children: ChildProcess[] = [];

async function startMachine(): Promise<ChildProcess> {
  const holder = spawn("unshare", ["--net", "sh", "-c", "ip link set lo up && echo up && cat"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  children.push(holder);
  await once(holder.stdout, "data");
  return holder;
}

const inNetwork = ({ pid }: ChildProcess): readonly string[] => ["nsenter", "--target", String(pid), "--net"];

async function startMachines(): Promise<Machines> {
  const holders = await Promise.all([startMachine(), startMachine()]);
  const [first, second] = holders.map(inNetwork);
  if (first === undefined || second === undefined) throw new Error("two machines are required");
  const run = ([command = "", ...prefix]: readonly string[], line: string): void =>
    void execFileSync(command, [...prefix, "ip", ...line.split(" ")]);
  run(first, `link add cable type veth peer name cable netns ${String(holders[1]?.pid)}`);
  run(first, `addr add ${launcherIP}/24 dev cable`);
  run(second, "addr add 10.99.0.2/24 dev cable");
  for (const machine of [first, second]) run(machine, "link set cable up");
  return { first, second, unplug: () => run(first, "link set cable down") };
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "mpi-partition-"));
  if (isRoot) machines = await startMachines();
});

afterEach(async () => {
  const running = children.splice(0).filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  await Promise.all(
    running.map(async (child) => {
      child.kill("SIGKILL");
      await once(child, "exit");
    }),
  );
  rmSync(folder, { recursive: true, force: true });
});

const isRoot = process.getuid?.() === 0;

function started(pod: PodProcess): PodProcess {
  children.push(pod.child);
  return pod;
}

/** Waits until a rank has printed `up` so many times. */
const ranksAreUp = ({ child }: PodProcess, count: number): Promise<void> => {
  let seen = 0;
  return new Promise((resolve) => {
    child.stdout?.on("data", (text: string) => (seen += text.split("up").length - 1) >= count && resolve());
  });
};

/** Processes that run in the test's directory, as the ranks do. */
const processesInFolder = (): readonly string[] =>
  readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readlinkSync(`/proc/${name}/cwd`) === folder;
    } catch {
      return false; // It has exited.
    }
  });

const rank = ["/bin/sh", "-c", "echo up; exec sleep 600"];

it.runIf(isRoot).each([
  ["Open MPI", { implementation: "OpenMPI", ranks: 2, command: rank }],
  ["MPICH", { implementation: "MPICH", ranks: 2, command: rank }],
  [
    "a session with MPICH",
    {
      implementation: "MPICH",
      ranks: 0,
      hosts: ["h0", "h1"],
      waitsForWorkers: true,
      command: ["mpiexec.mpich", "-n", "2", ...rank],
    },
  ],
] as const satisfies readonly (readonly [string, LaunchOrder])[])(
  "a partition between launcher and worker of %s is reported with the worker, and ends the ranks on both sides",
  { timeout: 120_000 },
  async (_, order) => {
    const { first, second, unplug } = machines;
    const launcher = started(startLauncherProcess(launcherIP, token, order, { cwd: folder, prefix: first }));
    const up = ranksAreUp(launcher, 2);
    const near = started(startWorkerProcess(launcherIP, token, 0, { cwd: folder, prefix: first }));
    const far = started(startWorkerProcess(launcherIP, token, 1, { cwd: folder, prefix: second }));
    await up;
    unplug();
    const [ended, nearEnded, farEnded] = await Promise.all([launcher.done, near.done, far.done]);
    expect(ended.exitCode).toBe(launchFailedExitCode);
    expect(ended.stderr).toContain("worker 1 was lost: no message for 3 s");
    expect(ended.stderr).not.toContain("worker 0 was lost");
    expect(nearEnded.stderr).not.toContain("lost the launcher");
    expect(farEnded.exitCode).toBe(launcherLostExitCode);
    expect(farEnded.stderr).toContain("lost the launcher: no message for 3 s");
    await expect.poll(processesInFolder, { timeout: 60_000 }).toEqual([]);
  },
);
