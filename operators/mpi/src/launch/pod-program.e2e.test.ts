import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AddressBlock, reserveAddressBlock } from "@keelson/cluster/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { podProgram } from "../children/pod-program-path.ts";
import { copyTools } from "../commands/copy-tools.ts";
import {
  compilePi,
  type PodProcess,
  startLauncherProcess,
  startWorkerProcess,
  waitUntilListening,
} from "../testing/pod-processes.ts";
import { formatOrder, type LaunchOrder, type MpiImplementation, podVariables, rendezvousPort } from "./pod-environment.ts";

const source = fileURLToPath(new URL("../../../../examples/mpi/pi.c", import.meta.url));
const failingSource = fileURLToPath(new URL("../testing/failing-rank.c", import.meta.url));
const spawningSource = fileURLToPath(new URL("../testing/spawning-rank.c", import.meta.url));
const outputSource = fileURLToPath(new URL("../testing/mixed-output.c", import.meta.url));
const token = "a-token-of-this-test";
let folder: string;
let addresses: AddressBlock;
let lastAddress = 0;
const started: PodProcess[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "mpi-e2e-"));
  addresses = await reserveAddressBlock(folder);
  compilePi("mpicc.openmpi", source, join(folder, "pi-OpenMPI"));
  compilePi("mpicc.mpich", source, join(folder, "pi-MPICH"));
  compilePi("mpicc.openmpi", failingSource, join(folder, "failing-OpenMPI"));
  compilePi("mpicc.mpich", failingSource, join(folder, "failing-MPICH"));
  compilePi("mpicc.openmpi", outputSource, join(folder, "output-OpenMPI"));
  compilePi("mpicc.mpich", outputSource, join(folder, "output-MPICH"));
  compilePi("mpicc.openmpi", spawningSource, join(folder, "spawning-OpenMPI"));
  compilePi("mpicc.mpich", spawningSource, join(folder, "spawning-MPICH"));
});

afterEach(() => {
  for (const { child } of started.splice(0)) if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
});

afterAll(async () => {
  await addresses.release();
  rmSync(folder, { recursive: true, force: true });
});

const order = (ranks: number, command: string[], rest: Partial<LaunchOrder> = {}): LaunchOrder => ({
  implementation: "Auto",
  ranks,
  command,
  ...rest,
});

/** An address of the reserved block that no other test has had. */
function nextAddress(): string {
  lastAddress += 1;
  return `${addresses.podNetwork}.0.${lastAddress}`;
}

function launcher(podIP: string, given: LaunchOrder, input?: string): PodProcess {
  const process = startLauncherProcess(podIP, token, given, { cwd: folder, ...(input === undefined ? {} : { input }) });
  started.push(process);
  return process;
}

function worker(podIP: string, index: number, withToken = token): PodProcess {
  const process = startWorkerProcess(podIP, withToken, index, { cwd: folder });
  started.push(process);
  return process;
}

async function run(given: LaunchOrder) {
  const podIP = nextAddress();
  const first = launcher(podIP, given);
  const workers = Array.from({ length: given.ranks }, (_, index) => worker(podIP, index));
  return { launcher: await first.done, workers: await Promise.all(workers.map((each) => each.done)) };
}

/** Whether a process runs. A zombie does not. */
function isRunning(pid: string): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

describe.each<MpiImplementation>(["OpenMPI", "MPICH"])("launcher and workers of %s", (implementation) => {
  const pi = `./pi-${implementation}`;

  it.each([1, 2, 4])("run a program in %i ranks that find each other", async (ranks) => {
    const ended = await run(order(ranks, [pi, "1000"]));
    expect(ended.launcher.stderr).toBe("");
    expect(ended.launcher).toMatchObject({ exitCode: 0, stdout: `pi is 3.14159274, by ${ranks} ranks and 1000 strips\n` });
    expect(ended.workers.map(({ exitCode }) => exitCode)).toEqual(Array(ranks).fill(0));
  });

  it("run several ranks per worker, the first of them in the launcher's Pod", async () => {
    const podIP = nextAddress();
    const given = order(5, [pi, "1000"], { slots: 2, launcherIsWorker: true });
    const first = launcher(podIP, given);
    const workers = [1, 2].map((index) => worker(podIP, index));
    expect(await first.done).toMatchObject({ exitCode: 0, stdout: "pi is 3.14159274, by 5 ranks and 1000 strips\n" });
    for (const each of workers) expect(await each.done).toMatchObject({ exitCode: 0 });
  });

  it("run a command that starts mpiexec and ssh itself, any number of times", async () => {
    const podIP = nextAddress();
    const run = `mpirun.${implementation.toLowerCase()} -n 4 ${pi} 1000`;
    const script = `ssh -p 22 user@pi-worker-1 'echo one; exit 4'; echo "exit $?"; ${run}; ${run} 7; exit $?`;
    const hosts = [0, 1].map((index) => `pi-worker-${index}.pi.default.svc`);
    const first = launcher(podIP, order(4, ["/bin/sh", "-c", script], { implementation, hosts, slots: 2 }));
    const workers = [0, 1].map((index) => worker(podIP, index));
    const ended = await first.done;
    expect(ended.exitCode).toBe(7);
    expect(ended.stdout.match(/^exit 4$|^pi is .* by 4 ranks/gm)).toHaveLength(3);
    for (const each of workers) expect((await each.done).exitCode).toBe(0);
    expect((await workers[1]?.done)?.stdout).toBe("one\n");
  });

  // MPICH starts spawned ranks through further daemons, which the launcher does not support.
  it.each(["OpenMPI"].filter((each) => each === implementation))(
    "let the program spawn further ranks with %s, which no slot was reserved for",
    async () => {
      const { launcher: ended } = await run(order(2, [`./spawning-${implementation}`]));
      expect(ended).toMatchObject({ exitCode: 0, stdout: "sum of the spawned ranks: 3\n" });
    },
  );

  it("label whole lines of output with their ranks, also where their pieces mix", async () => {
    const { launcher: ended } = await run(order(3, [`./output-${implementation}`], { labelsOutput: true }));
    expect(ended.exitCode).toBe(0);
    const lines = ended.stdout.split("\n").filter((line) => line !== "");
    for (const rank of [0, 1, 2]) {
      const own = lines.filter((line) => line.startsWith(`[${rank}] `)).map((line) => line.slice(4));
      expect(own.slice(0, 3)).toEqual([0, 1, 2].map((piece) => `piece ${piece} of rank ${rank}`));
      const filler = "x".repeat(1999);
      expect(own.slice(3, 203)).toEqual(Array.from({ length: 200 }, (_, index) => `${rank} ${index} ${filler}`));
      expect(own.slice(203)).toEqual([`end of rank ${rank}`]);
      expect(ended.stderr).toContain(`[${rank}] error of rank ${rank}\n`);
    }
    expect(lines).toHaveLength(3 * 204);
  });

  it("name the failed rank of labelled output without the label", async () => {
    const { launcher: ended } = await run(order(2, [`./failing-${implementation}`, "1", "exit"], { labelsOutput: true }));
    expect(ended.stderr).toMatch(/keelson mpi launcher: rank 1 on worker 1 failed: [^[\n]*\n/);
  });

  it("pass the launcher's standard input to rank 0 only", async () => {
    const podIP = nextAddress();
    const first = launcher(podIP, order(2, ["/bin/cat"], { stdin: true, implementation }), "one\ntwo\n");
    const workers = [0, 1].map((index) => worker(podIP, index));
    expect(await first.done).toMatchObject({ exitCode: 0, stdout: "one\ntwo\n" });
    await Promise.all(workers.map((each) => each.done));
  });

  it("exit with the program's status if a rank fails", async () => {
    const ended = await run(order(2, [pi, "1000", "7"]));
    expect(ended.launcher.exitCode).toBe(7);
  });

  it.each([
    ["segv", 139, "rank 1 on worker 1 failed: killed by SIGSEGV (signal 11)"],
    ["exit", 3, "rank 1 on worker 1 failed: exit code 3"],
    ["kill", 137, "rank 1 on worker 1 failed: killed by SIGKILL (signal 9)"],
    ["return", 4, "rank 1 on worker 1 failed: exit code 4"],
    // MPICH's mpiexec may end before it has read which rank it was.
    [
      "abort",
      9,
      implementation === "MPICH"
        ? /rank 1 called MPI_Abort|a rank probably called MPI_Abort with 9/
        : "rank 1 on worker 1 failed: called MPI_Abort with 9",
    ],
  ])("name the rank that failed by %s, with its exit code %i", async (how, exitCode, message) => {
    const { launcher: ended } = await run(order(3, [`./failing-${implementation}`, "1", how]));
    expect(ended.exitCode).toBe(exitCode);
    const lines = ended.stderr.split("\n").filter((line) => line.startsWith("keelson mpi launcher: "));
    expect(lines.at(-1)).toMatch(message);
  });

  it("pass every argument unchanged", async () => {
    const strange = ["a b", ":", "-n", "2", "'\"", "$(id)", "$HOME", ";true", "*", "é\n", ""];
    const script = 'process.stdout.write(JSON.stringify(process.argv.slice(1)) + "\\n")';
    const ended = await run(order(1, [process.execPath, "-e", script, ...strange], { implementation }));
    expect(ended.launcher).toMatchObject({ exitCode: 0, stdout: `${JSON.stringify(strange)}\n` });
  });

  it("fail if a failed rank writes a status that the system would truncate to 0", async () => {
    const file = "$(tr '\\0' '\\n' </proc/$PPID/environ | sed -n 's/^KEELSON_MPI_RANK_FILE=//p')";
    const attack = ["/bin/sh", "-c", `echo "0 256" >>"${file}"; exit 3`];
    const ended = await run(order(1, attack, { implementation }));
    expect(ended.launcher.stderr).toContain("rank 0 on worker 0 failed: exit code 255");
    expect(ended.launcher.exitCode).toBe(255);
  });

  it("fail if the program is missing", async () => {
    const ended = await run(order(2, ["./no-such-program"], { implementation }));
    expect(ended.launcher.exitCode).toBe(127);
    expect(ended.launcher.stderr).toMatch(
      /rank \d on worker \d failed: program .\/no-such-program not found \(exit code 127\)/,
    );
  });

  it("hide the launcher's environment and the token from the ranks", async () => {
    const script = "process.stdout.write(Object.keys(process.env).filter((name) => /^KEELSON/.test(name)).join() + '|')";
    const ended = await run(order(2, [process.execPath, "-e", script], { implementation }));
    expect(ended.launcher.stdout.replaceAll("\n", "")).toBe("||");
  });

  it("end with WorkerLost if a worker is killed", async () => {
    const podIP = nextAddress();
    const sleeper = "process.stdout.write('up\\n'); setTimeout(() => {}, 600000)";
    const first = launcher(podIP, order(2, [process.execPath, "-e", sleeper], { implementation }));
    const [kept, killed] = [worker(podIP, 0), worker(podIP, 1)];
    let up = 0;
    await new Promise<void>((resolve) =>
      first.child.stdout?.on("data", (text: string) => (up += text.split("up").length - 1) >= 2 && resolve()),
    );
    killed.child.kill("SIGKILL");
    const ended = await first.done;
    expect(ended.exitCode).toBe(125);
    expect(ended.stderr).toContain("WorkerLost: worker 1 was lost");
    expect((await kept.done).exitCode).not.toBe(0);
  });

  it("end with all ranks if the launcher is killed", async () => {
    const podIP = nextAddress();
    const sleeper = "process.stdout.write('up ' + process.pid + '\\n'); setTimeout(() => {}, 600000)";
    const first = launcher(podIP, order(2, [process.execPath, "-e", sleeper], { implementation }));
    const workers = [worker(podIP, 0), worker(podIP, 1)];
    let written = "";
    const ranks = (): string[] => [...written.matchAll(/up (\d+)\n/g)].map(([, pid]) => pid ?? "");
    await new Promise<void>((resolve) =>
      first.child.stdout?.on("data", (text: string) => {
        written += text;
        if (ranks().length === 2) resolve();
      }),
    );
    first.child.kill("SIGKILL");
    const codes = (await Promise.all(workers.map(({ done }) => done))).map(({ exitCode }) => exitCode);
    expect(codes.every((code) => code !== 0)).toBe(true);
    await expect.poll(() => ranks().filter(isRunning)).toEqual([]);
  });

  it("exit with 143 after SIGTERM, before and after workers have joined", async () => {
    const podIP = nextAddress();
    const sleeper = [process.execPath, "-e", "process.stdout.write('up\\n'); setTimeout(() => {}, 600000)"];
    const alone = launcher(podIP, order(1, sleeper, { implementation }));
    await waitUntilListening(podIP, alone);
    alone.child.kill("SIGTERM");
    expect((await alone.done).exitCode).toBe(143);
    const other = nextAddress();
    const joined = launcher(other, order(1, sleeper, { implementation }));
    const its = worker(other, 0);
    await new Promise((resolve) => joined.child.stdout?.once("data", resolve));
    joined.child.kill("SIGTERM");
    expect((await joined.done).exitCode).toBe(143);
    expect((await its.done).exitCode).not.toBe(0);
  });

  it("survive unauthenticated clients", async () => {
    const podIP = nextAddress();
    const first = launcher(podIP, order(1, [pi, "1000"]));
    await waitUntilListening(podIP, first);
    const noise = ["GET / HTTP/1.0\r\n\r\n", "\0\0\0\0", '{"type":"join","worker":0}\n'];
    for (const text of noise) {
      const socket = connect({ host: podIP, port: rendezvousPort }, () => socket.write(text));
      socket.on("error", () => {});
    }
    const impostor = worker(podIP, 0, "a-wrong-token");
    const right = worker(podIP, 0);
    expect((await first.done).exitCode).toBe(0);
    expect((await right.done).exitCode).toBe(0);
    impostor.child.kill("SIGKILL");
    await impostor.done;
  });

  it("name the workers that did not join before the deadline", async () => {
    const podIP = nextAddress();
    const first = launcher(podIP, order(3, [pi], { startDeadlineMs: 1500 }));
    worker(podIP, 1);
    const ended = await first.done;
    expect(ended).toMatchObject({ exitCode: 124 });
    expect(ended.stderr).toContain("StartDeadlineExceeded: 1 of 3 workers joined in time; missing: 0, 2");
  });
});

it("runs from a self-contained directory, as in Pods of other images", async () => {
  const tools = join(folder, "tools");
  copyTools(tools, podProgram);
  const environment = { PATH: "/usr/bin:/bin", [podVariables.token]: token, TMPDIR: folder };
  const podIP = nextAddress();
  const start = (part: string, variables: Record<string, string>) =>
    spawn(join(tools, "keelson-mpi"), [part], { cwd: folder, env: { ...environment, ...variables } });
  const first = start("launcher", {
    [podVariables.order]: formatOrder(order(1, ["./pi-OpenMPI", "1000"])),
    [podVariables.podIP]: podIP,
  });
  start("worker", { [podVariables.launcher]: `${podIP}:${rendezvousPort}`, [podVariables.index]: "0" });
  let output = "";
  first.stdout.on("data", (text: Buffer) => (output += text.toString()));
  const [exitCode] = await once(first, "close");
  expect([exitCode, output]).toEqual([0, "pi is 3.14159274, by 1 ranks and 1000 strips\n"]);
});

it("leaves no files or processes behind", async () => {
  const before = readdirSync(folder).filter((name) => name.startsWith("kmpi-"));
  const ended = await run(order(2, ["./pi-OpenMPI", "1000"]));
  expect(ended.launcher.exitCode).toBe(0);
  expect(readdirSync(folder).filter((name) => name.startsWith("kmpi-") && !before.includes(name))).toEqual([]);
  const { stdout } = spawnSync("ps", ["-eo", "args"], { encoding: "utf8" });
  expect(stdout.split("\n").filter((line) => line.includes(folder))).toEqual([]);
});
