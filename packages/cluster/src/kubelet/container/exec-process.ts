import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { readlink } from "node:fs/promises";
import type { Clock } from "@keelson/api-machinery/time";
import type { ExecSession, Program } from "@keelson/execution";
import { childrenOf } from "./child-processes.ts";
import { mounted } from "../volumes/mount-marker.ts";

/** The words that run `command` where a container's program runs: in its mount namespace, as its user, in its folder. */
function execCommand(program: Program, pid: number, command: readonly string[]): readonly [string, ...string[]] {
  const isMounted = program.spec.command[0] === "unshare";
  if (!isMounted) {
    const [first = "", ...rest] = command;
    return [first, ...rest];
  }
  return ["nsenter", "--target", String(pid), "--mount", "--root", "--wd", "--", ...command];
}

/** A size of a terminal, in characters. */
export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

/** A command that runs beside a container's program. */
export interface ContainerCommand extends Omit<ExecSession, "exited"> {
  /** Never rejects; `problem` is there where it could not be started. */
  exited(): Promise<{ readonly exitCode: number; readonly problem?: string }>;
}

/** How {@link startInContainer} starts a command. */
export interface CommandOptions {
  /** In a terminal; of this size, where it is known. */
  readonly terminal?: { readonly size?: TerminalSize | undefined };
}

/** Of a terminal whose client has not told its size. */
export const usualSize: TerminalSize = { rows: 24, columns: 80 };

/** Starts a command where a container's program runs, with its environment. Rejects where nothing runs. */
export async function startInContainer(
  program: Program,
  command: readonly string[],
  { terminal }: CommandOptions = {},
): Promise<ContainerCommand> {
  const [first = "", ...rest] = command;
  if (program.state.kind !== "running") throw new Error("the container is not running");
  if (program.spec.isolation !== undefined) {
    return program.exec({
      command: [first, ...rest],
      ...(terminal === undefined ? {} : { terminal: terminal.size ?? usualSize }),
    });
  }
  await mounted(program);
  const words = terminal === undefined ? command : inTerminal(command, terminal.size);
  const child = spawnBeside(
    program,
    await ownProcess(program, program.state.pid),
    words,
    terminal === undefined ? {} : { TERM: "xterm" },
  );
  // Its processes are the container's: they may end before they have read their input.
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

/** The process of a container's program: with a terminal, a child of the one that holds that. */
async function ownProcess({ spec }: Program, pid: number): Promise<number> {
  return spec.terminal === undefined ? pid : ((await childrenOf(pid))[0] ?? pid);
}

function spawnBeside(
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
    // Its processes belong to the program: when that ends, they end.
    env: { ...program.spec.env, ...env },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    ...(isMounted || uid === undefined || !Number.isInteger(uid) ? {} : { uid, gid: Number.isInteger(gid) ? (gid ?? 0) : 0 }),
  });
}

/** `script` makes the terminal: nothing else that a plain machine has does. Its size is set before the command begins. */
function inTerminal(command: readonly string[], size: TerminalSize | undefined): readonly string[] {
  const words = command.map(quote).join(" ");
  const fitted = size === undefined ? words : `stty rows ${size.rows} cols ${size.columns}; exec ${words}`;
  return ["script", "--quiet", "--return", "--flush", "--command", fitted, "/dev/null"];
}

/** Tells the terminal below `script` its size. */
async function resizeBelow(pid: number, { columns, rows }: TerminalSize): Promise<void> {
  for (const child of await childrenOf(pid)) {
    const terminal = `/proc/${child}/fd/0`;
    // Below a root of the container's own, its path is longer.
    if (!/\/pts\/\d+$/.test(await readlink(terminal).catch(() => ""))) continue;
    spawn("stty", ["-F", terminal, "cols", String(columns), "rows", String(rows)], { stdio: "ignore" }).on("error", () => {});
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
    stream.on("data", (chunk: Buffer) => {
      if (output.length < keptOutput) output += chunk.toString("utf8").slice(0, keptOutput - output.length);
    });
    stream.on("error", () => {});
  }
  running.stdin.end();
  const { exitCode, problem = "" } = await running.exited();
  timer.cancel();
  // A grandchild may hold the pipes open: the command itself has ended, and that is what counts.
  await new Promise<void>((resolve) => setImmediate(resolve));
  for (const stream of outputs) stream.destroy();
  return { exitCode, output: output || problem, isTimeout };
}
