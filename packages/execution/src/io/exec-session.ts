import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync, rmSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import type { ExecSession, TerminalSize } from "../driver.ts";
import { listProcesses, readStat } from "../process/proc.ts";
import { splitEnvironment } from "../shim/shim.ts";
import { resizeTerminal, terminalWords } from "./terminal.ts";
import type { UserIds } from "../program/user.ts";

/** A command to run beside a program, as a child of this process. */
export interface ExecRequest {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly user?: UserIds;
  /** Paths that are opened for reading, as descriptors from 3 on. */
  readonly files: readonly string[];
  /** Removed as soon as the files are open. */
  readonly temporary?: string;
  /** Entry files of the program's cgroups. */
  readonly groups: readonly string[];
  readonly terminal?: TerminalSize;
}

const firstFile = 3;

/** Enters the program's groups; the command stays what "$@" says. */
const entering = `keelson_groups=$1
shift
for keelson_fd in $keelson_groups; do { echo 0 >&"$keelson_fd"; } 2>/dev/null; done
exec "$@"`;

/** A command that could not be started, with the exit code that shells give that. */
export function failedExec(error: unknown, exitCode = 126): ExecSession {
  const message = error instanceof Error ? error.message : String(error);
  const stdin = new Writable({ write: (_chunk, _encoding, done) => done() });
  return {
    stdin,
    stdout: Readable.from([]),
    stderr: Readable.from([Buffer.from(`${message}\n`)]),
    resize: () => Promise.resolve(),
    kill: () => Promise.resolve(),
    exited: () => Promise.resolve({ exitCode }),
  };
}

/** Starts a command beside a program. It leads a process group of its own, and is the program's by its cgroup and environment. */
export function spawnExec(request: ExecRequest): ExecSession {
  const { terminal, files, groups } = request;
  const opened: number[] = [];
  const open = (path: string, flags: string): number => {
    const fd = openSync(path, flags);
    opened.push(fd);
    return fd;
  };
  const firstGroup = firstFile + files.length;
  // A shell has one digit for a descriptor.
  const entered = groups.slice(0, 10 - firstGroup);
  const words = ["-c", entering, "keelson-exec", entered.map((_, index) => firstGroup + index).join(" ")];
  const hasTerminal = terminal !== undefined;
  // Names that a shell drops, or acts on, are set behind it.
  const { inherited, assignments } = splitEnvironment(request.env);
  const command = assignments.length === 0 ? request.command : ["env", ...assignments, ...request.command];
  const inner = terminal === undefined ? { words: command, env: inherited } : terminalWords(command, inherited, terminal);
  let child: ChildProcess;
  try {
    child = spawn("/bin/sh", [...words, ...inner.words], {
      cwd: request.cwd,
      env: { ...inner.env },
      detached: true,
      stdio: ["pipe", "pipe", "pipe", ...files.map((path) => open(path, "r")), ...entered.map((path) => open(path, "w"))],
      ...(request.user !== undefined && { uid: request.user.uid, gid: request.user.gid }),
    });
  } catch (error) {
    return failedExec(error);
  } finally {
    for (const fd of opened) closeSync(fd);
    if (request.temporary !== undefined) rmSync(request.temporary, { recursive: true, force: true });
  }
  const { stdin, stdout, stderr, pid } = child;
  if (stdin === null || stdout === null || stderr === null) throw new TypeError("stdio of kind pipe is a stream");
  // It may end without having read its input.
  stdin.on("error", () => {});
  const exited = new Promise<{ readonly exitCode: number }>((resolve) => {
    child.once("error", () => resolve({ exitCode: 126 }));
    child.once("exit", (code, signal) => resolve({ exitCode: code ?? (signal === null ? 1 : 137) }));
  });
  return {
    stdin,
    stdout,
    ...(!hasTerminal && { stderr }),
    async resize(size) {
      if (!hasTerminal || pid === undefined) return;
      await resizeTerminal(pid, size);
    },
    async kill() {
      if (pid === undefined || readStat(pid) === undefined) return;
      const descendants = await descendantsOf(pid);
      for (const each of [-pid, ...descendants]) {
        try {
          process.kill(each, "SIGKILL");
        } catch {
          // Ended meanwhile.
        }
      }
    },
    exited: () => exited,
  };
}

/** The processes below one. script(1) gives its command a session of its own, which the group of the command does not reach. */
async function descendantsOf(pid: number): Promise<readonly number[]> {
  const all = await listProcesses();
  const found: number[] = [];
  for (let parents = [pid]; parents.length > 0; ) {
    const children = all.filter((stat) => parents.includes(stat.parent)).map((stat) => stat.pid);
    found.push(...children);
    parents = children;
  }
  return found;
}
