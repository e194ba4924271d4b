import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { podProgram } from "../children/pod-program-path.ts";
import { formatOrder, type LaunchOrder, podVariables, rendezvousPort } from "../launch/pod-environment.ts";

/*
 * Launcher and workers as plain processes on loopback addresses, for tests without Pods.
 */

/** A running Pod program. */
export interface PodProcess {
  readonly child: ChildProcess;
  /** Its exit status and output. */
  readonly done: Promise<{ readonly exitCode: number | null; readonly stdout: string; readonly stderr: string }>;
}

/** Where a Pod program runs, and what it reads. */
export interface PodProcessOptions {
  readonly cwd: string;
  /** Its standard input. Default: none. */
  readonly input?: string;
  /** Words before its command, such as those of nsenter. Default: none. */
  readonly prefix?: readonly string[];
}

/** Starts a Pod program with additional environment variables. */
function startPodProcess(
  part: "launcher" | "worker",
  variables: Readonly<Record<string, string>>,
  { cwd, input, prefix = [] }: PodProcessOptions,
): PodProcess {
  const [command, ...words] = [...prefix, process.execPath, podProgram, part];
  const child = spawn(command, words, {
    cwd,
    // A killed program leaves its temporary files, which the test deletes with its directory.
    env: { ...process.env, TMPDIR: cwd, ...variables },
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  child.stdin?.end(input);
  let [stdout, stderr] = ["", ""];
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const done = once(child, "close").then(([exitCode]) => ({ exitCode: exitCode as number | null, stdout, stderr }));
  return { child, done };
}

/** Starts a launcher on an address. */
export function startLauncherProcess(podIP: string, token: string, order: LaunchOrder, options: PodProcessOptions): PodProcess {
  return startPodProcess(
    "launcher",
    { [podVariables.order]: formatOrder(order), [podVariables.token]: token, [podVariables.podIP]: podIP },
    options,
  );
}

/** Starts a worker of the launcher at an address. */
export function startWorkerProcess(launcherIP: string, token: string, index: number, options: PodProcessOptions): PodProcess {
  return startPodProcess(
    "worker",
    {
      [podVariables.launcher]: `${launcherIP}:${rendezvousPort}`,
      [podVariables.token]: token,
      [podVariables.index]: String(index),
    },
    options,
  );
}

/** Waits until the launcher accepts connections or has ended. */
export async function waitUntilListening(podIP: string, launcher: PodProcess): Promise<void> {
  while (launcher.child.exitCode === null) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect({ host: podIP, port: rendezvousPort });
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
      socket.once("connect", () => socket.destroy());
    });
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Compiles the example. */
export function compilePi(compiler: string, source: string, output: string): void {
  const { status, stderr } = spawnSync(compiler, ["-O1", "-o", output, source], { encoding: "utf8" });
  if (status !== 0) throw new Error(`${compiler}: ${stderr}`);
}
