import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { readlink } from "node:fs/promises";
import type { Clock } from "@keelson/api-machinery/time";
import { type ExecSession, type Program, setTerminalSize } from "@keelson/execution";
import { DiscardedOutput } from "./discarded-output.ts";
import { childrenOf } from "./child-processes.ts";
import { mounted } from "../volumes/mount-marker.ts";
import { ContainerError } from "./container-error.ts";

/** The command line that runs `command` in the container's mount namespace, root and working directory. */
function execCommand(program: Program, pid: number, command: readonly string[]): readonly [string, ...string[]] {
  const isMounted = program.spec.command[0] === "unshare";
  if (!isMounted) {
    const [first = "", ...rest] = command;
    return [first, ...rest];
  }
  return ["nsenter", "--target", String(pid), "--mount", "--root", "--wd", "--", ...command];
}

/** The size of a terminal in characters. */
export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

/** A command running alongside a container's program. */
export interface ContainerCommand extends Omit<ExecSession, "exited" | "signal"> {
  /** Never rejects. `problem` is set if the command could not be started. */
  exited(): Promise<{ readonly exitCode: number; readonly problem?: string }>;
}

/** Options of {@link startInContainer}. */
export interface CommandOptions {
  /** Runs the command in a terminal, with this size if known. */
  readonly terminal?: { readonly size?: TerminalSize | undefined };
}

/** The terminal size for clients that have not sent theirs. */
export const defaultTerminalSize: TerminalSize = { rows: 24, columns: 80 };

/** Starts a command alongside a container's program, with its environment. Rejects if the container is not running. */
export async function startInContainer(
  program: Program,
  command: readonly string[],
  { terminal }: CommandOptions = {},
): Promise<ContainerCommand> {
  const [first = "", ...rest] = command;
  if (program.state.kind !== "running") throw new ContainerError("NotRunning", "container is not running");
  if (program.spec.isolation !== undefined) {
    return program.exec({
      command: [first, ...rest],
      ...(terminal === undefined ? {} : { terminal: terminal.size ?? defaultTerminalSize }),
    });
  }
  await mounted(program);
  const words = terminal === undefined ? command : inTerminal(command, terminal.size);
  const child = spawnAlongside(
    program,
    await ownProcess(program, program.state.pid),
    words,
    terminal === undefined ? {} : { TERM: "xterm" },
  );
  // The command may exit before it has read its input.
  child.stdin.on("error", () => {});
  const exited = new Promise<{ readonly exitCode: number; readonly problem?: string }>((resolve) => {
    child.on("error", (error) => resolve({ exitCode: 127, problem: error.message }));
    child.on("exit", (code, signal) => resolve({ exitCode: code ?? (signal === null ? 1 : 137) }));
  });
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    async resize(size) {
      if (child.pid !== undefined) await resizeBelow(child.pid, size);
    },
    async kill() {
      killCommand(child);
    },
    exited: () => exited,
  };
}

/** The process of a container's program. With a terminal, it is the child of the process that holds the terminal. */
async function ownProcess({ spec }: Program, pid: number): Promise<number> {
  return spec.terminal === undefined ? pid : ((await childrenOf(pid))[0] ?? pid);
}

function spawnAlongside(
  program: Program,
  pid: number,
  command: readonly string[],
  env: Readonly<Record<string, string>>,
): ChildProcessWithoutNullStreams {
  const [first, ...rest] = execCommand(program, pid, command);
  const [uid, gid] = program.spec.user?.split(":").map(Number) ?? [];
  const isMounted = program.spec.command[0] === "unshare";
  return spawn(first, rest, {
    cwd: program.spec.cwd ?? "/",
    // The environment marks the process as part of the program, so that it ends with the program.
    env: { ...program.spec.env, ...env },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    ...(isMounted || uid === undefined || !Number.isInteger(uid) ? {} : { uid, gid: Number.isInteger(gid) ? (gid ?? 0) : 0 }),
  });
}

/** Wraps a command in `script`, the one tool of a plain machine that allocates a terminal. The size is set before it starts. */
function inTerminal(command: readonly string[], size: TerminalSize | undefined): readonly string[] {
  const words = command.map(quote).join(" ");
  const fitted = size === undefined ? words : `stty rows ${size.rows} cols ${size.columns}; exec ${words}`;
  return ["script", "--quiet", "--return", "--flush", "--command", fitted, "/dev/null"];
}

/** Resizes the terminal held by `script`. */
async function resizeBelow(pid: number, size: TerminalSize): Promise<void> {
  for (const child of await childrenOf(pid)) {
    const terminal = `/proc/${child}/fd/0`;
    // In another root, the path has a prefix.
    if (!/\/pts\/\d+$/.test(await readlink(terminal).catch(() => ""))) continue;
    await setTerminalSize(terminal, size);
  }
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function killCommand(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has exited already.
  }
}

/** The result of a short command. `output` is truncated. */
export interface ExecResult {
  readonly exitCode: number;
  readonly output: string;
  readonly isTimeout: boolean;
}

const maxOutputBytes = 10 * 1024;

/** Runs a short command to completion, for probes and hooks. Never throws. */
export async function execToEnd(
  program: Program,
  command: readonly string[],
  options: { readonly timeoutMs: number; readonly clock: Clock },
): Promise<ExecResult> {
  let output = "";
  let isTimeout = false;
  let running: ContainerCommand;
  try {
    running = await startInContainer(program, command);
  } catch (error) {
    return { exitCode: 126, output: error instanceof Error ? error.message : String(error), isTimeout };
  }
  const timer = options.clock.setTimer(options.timeoutMs, () => {
    isTimeout = true;
    void running.kill();
  });
  const outputs = [running.stdout, running.stderr].filter((stream) => stream !== undefined);
  for (const stream of outputs) {
    const discarded = new DiscardedOutput(stream, options.clock);
    stream.on("data", (chunk: Buffer) => {
      if (output.length < maxOutputBytes) output += chunk.toString("utf8").slice(0, maxOutputBytes - output.length);
      else discarded.add(chunk.length);
    });
    stream.on("error", () => {});
  }
  running.stdin.end();
  const { exitCode, problem = "" } = await running.exited();
  timer.cancel();
  // A grandchild may hold the pipes open, but only the command's own exit matters.
  await new Promise<void>((resolve) => setImmediate(resolve));
  for (const stream of outputs) stream.destroy();
  return { exitCode, output: output || problem, isTimeout };
}
