import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync, readlinkSync, rmSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import type { ExecSession, TerminalSize } from "../driver.ts";
import { listProcesses, readStat } from "../process/proc.ts";
import { splitEnvironment } from "../shim/shim.ts";
import { resizeTerminal, terminalCommand } from "./terminal.ts";
import type { UserIds } from "../program/user.ts";

/** A command to run beside a program, as a child of this process. */
export interface ExecRequest {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly user?: UserIds;
  /** Paths that are opened for reading, as descriptors from 3 on. */
  readonly files: readonly string[];
  /** Folder that is removed once the files are open. */
  readonly temporary?: string;
  /** Entry files of the program's cgroups. */
  readonly groups: readonly string[];
  readonly terminal?: TerminalSize;
}

const firstFile = 3;

/**
 * Enters the program's cgroups, then executes the command in "$@". Passed in a variable, so that `ps` shows only the command. A shell's
 * redirection accepts single-digit descriptors only; others are opened once more.
 */
const enterScript = `unset KEELSON_SHIM
keelson_groups=$1
shift
for keelson_fd in $keelson_groups; do
  case $keelson_fd in
  ?) { echo 0 >&"$keelson_fd"; } 2>/dev/null ;;
  *) { echo 0 >"/proc/self/fd/$keelson_fd"; } 2>/dev/null ;;
  esac
done
exec "$@"`;

/** The session of a command that could not be started, with a shell's exit code for that. */
export function failedExec(error: unknown, exitCode = 126): ExecSession {
  const message = error instanceof Error ? error.message : String(error);
  const stdin = new Writable({ write: (_chunk, _encoding, done) => done() });
  return {
    stdin,
    stdout: Readable.from([]),
    stderr: Readable.from([Buffer.from(`${message}\n`)]),
    resize: () => Promise.resolve(),
    signal: () => Promise.resolve(),
    kill: () => Promise.resolve(),
    exited: () => Promise.resolve({ exitCode }),
  };
}

/** Starts a command beside a program. It leads its own process group and belongs to the program by its cgroup and environment. */
export function spawnExec(request: ExecRequest): ExecSession {
  const { terminal, files, groups } = request;
  const opened: number[] = [];
  const open = (path: string, flags: string): number => {
    const fd = openSync(path, flags);
    opened.push(fd);
    return fd;
  };
  const firstGroup = firstFile + files.length;
  const words = ["-c", 'eval "$KEELSON_SHIM"', "keelson-exec", groups.map((_, index) => firstGroup + index).join(" ")];
  const hasTerminal = terminal !== undefined;
  // Variables that a shell drops or interprets are set by env(1) after it.
  const { inherited, assignments } = splitEnvironment(request.env);
  const command = assignments.length === 0 ? request.command : ["env", ...assignments, ...request.command];
  const inner = terminal === undefined ? { words: command, env: inherited } : terminalCommand(command, inherited, terminal);
  let child: ChildProcess;
  try {
    child = spawn("/bin/sh", [...words, ...inner.words], {
      cwd: request.cwd,
      env: { ...inner.env, KEELSON_SHIM: enterScript },
      detached: true,
      stdio: ["pipe", "pipe", "pipe", ...files.map((path) => open(path, "r")), ...groups.map((path) => open(path, "w"))],
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
  // The command may exit without reading its input.
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
    async signal(signal) {
      if (pid !== undefined && readStat(pid) !== undefined) await signalCommand(pid, signal);
    },
    async kill() {
      if (pid === undefined || readStat(pid) === undefined) return;
      const descendants = await descendantsOf(pid);
      for (const each of [-pid, ...descendants]) {
        try {
          process.kill(each, "SIGKILL");
        } catch {
          // Already terminated.
        }
      }
    },
    exited: () => exited,
  };
}

/**
 * Sends a signal to the process group of the command that the process `pid` of this machine holds. Programs that put the command into a
 * namespace or on a terminal do not pass signals on and may be in its group, so they are skipped: the command is the first descendant in
 * another process namespace, else the leader of another session, else the process itself.
 */
async function signalCommand(pid: number, signal: NodeJS.Signals): Promise<void> {
  const own = namespaceOf(pid);
  const alive = [pid, ...(await descendantsOf(pid))]
    .flatMap((each) => readStat(each) ?? [])
    .filter(({ state }) => state !== "Z");
  const inside = alive.filter((stat) => namespaceOf(stat.pid) !== own);
  const candidates = inside.length > 0 ? inside : alive;
  const [first] = candidates;
  const command = inside.length > 0 ? first : (alive.find((stat) => stat.session === stat.pid && stat.pid !== pid) ?? first);
  for (const { pid: member } of candidates.filter(({ group }) => group === command?.group)) {
    try {
      process.kill(member, signal);
    } catch {
      // Already terminated.
    }
  }
}

/** The process namespace of a process; undefined if it has terminated. */
function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return undefined;
  }
}

/** The descendants of a process, parents first. script(1) starts its command in a new session, outside the command's process group. */
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
