import { type ChildProcess, spawn } from "node:child_process";
import type { Clock } from "@keelson/api-machinery";
import type { Program } from "@keelson/execution";

/** The words that run `command` where a container's program runs: in its mount namespace, as its user, in its folder. */
export function execCommand(program: Program, pid: number, command: readonly string[]): readonly [string, ...string[]] {
  const isMounted = program.spec.command[0] === "unshare";
  if (!isMounted) {
    const [first = "", ...rest] = command;
    return [first, ...rest];
  }
  return ["nsenter", "--target", String(pid), "--mount", "--root", "--wd", "--", ...command];
}

/** Starts a command beside a running container's program, with its environment. Throws where nothing runs. */
export function spawnInContainer(program: Program, command: readonly string[]): ChildProcess {
  if (program.state.kind !== "running") throw new Error("the container is not running");
  const [first, ...rest] = execCommand(program, program.state.pid, command);
  const [uid, gid] = (program.spec.user ?? "").split(":").map(Number);
  const isMounted = program.spec.command[0] === "unshare";
  return spawn(first, rest, {
    cwd: program.spec.cwd ?? "/",
    // Its processes belong to the program: when that ends, they end.
    env: { ...program.spec.env },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    ...(isMounted || !Number.isInteger(uid) ? {} : { uid: uid ?? 0, gid: Number.isInteger(gid) ? (gid ?? 0) : 0 }),
  });
}

/** Ends a command that {@link spawnInContainer} started, with what it started. */
export function killCommand(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
}

/** How a short command ended; `output` is the start of what it wrote. */
export interface ExecResult {
  readonly exitCode: number;
  readonly output: string;
  readonly isTimeout: boolean;
}

const keptOutput = 10 * 1024;

/** Runs a short command to its end, as probes and hooks do. Never throws. */
export function execToEnd(
  program: Program,
  command: readonly string[],
  options: { readonly timeoutMs: number; readonly clock: Clock },
): Promise<ExecResult> {
  return new Promise((resolve) => {
    let output = "";
    let isTimeout = false;
    let child: ChildProcess;
    try {
      child = spawnInContainer(program, command);
    } catch (error) {
      resolve({ exitCode: 126, output: error instanceof Error ? error.message : String(error), isTimeout });
      return;
    }
    const timer = options.clock.setTimer(options.timeoutMs, () => {
      isTimeout = true;
      killCommand(child);
    });
    const collect = (chunk: Buffer): void => {
      if (output.length < keptOutput) output += chunk.toString("utf8").slice(0, keptOutput - output.length);
    };
    child.stdout?.on("data", collect);
    child.stderr?.on("data", collect);
    child.stdin?.on("error", () => {});
    child.stdin?.end();
    child.on("error", (error) => {
      timer.cancel();
      resolve({ exitCode: 127, output: error.message, isTimeout });
    });
    child.on("exit", (code, signal) => {
      timer.cancel();
      // A grandchild may hold the pipes open: the command itself has ended, and that is what counts.
      setImmediate(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
        resolve({ exitCode: code ?? (signal === null ? 1 : 137), output, isTimeout });
      });
    });
  });
}
