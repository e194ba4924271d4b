import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync, readlinkSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import type { ExecSession, TerminalSize } from "../driver.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { isAlive, type ProcessList, type ProcessStat, readStat } from "../process/proc.ts";
import { splitEnvironment } from "../shim/shim.ts";
import { createResizer, terminalCommand } from "./terminal.ts";
import { withLowerScore } from "../process/oom-score.ts";
import type { UserIds } from "../program/users/user.ts";

/** A command to run alongside a program, as a child of this process. */
export interface ExecRequest {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly user?: UserIds;
  /** Paths that are opened for reading, as descriptors from 3 on. */
  readonly files: readonly string[];
  /** Called once the files are open, or could not be opened. */
  readonly onOpened?: () => void;
  /** Entry files of the program's cgroups. */
  readonly groups: readonly string[];
  readonly terminal?: TerminalSize;
  /** See `ProgramSpec.oomScoreAdjustment`. */
  readonly oomScoreAdjustment?: number;
  readonly processes: ProcessList;
  readonly deadlines: Deadlines;
}

const firstFile = 3;

/**
 * Enters the program's cgroups, then executes the command in "$@". Passed in a variable, so that `ps` shows only the command. Another user
 * cannot open the cgroups' files and gets descriptors. A shell's redirection accepts single-digit descriptors only; others are opened once
 * more.
 */
const enterScript = `unset KEELSON_SHIM
[ "$1" = "" ] || { echo "$1" >/proc/self/oom_score_adj; } 2>/dev/null
shift
while [ "$1" != "" ]; do
  case $1 in
  ?) { echo 0 >&"$1"; } 2>/dev/null ;;
  /*) { echo 0 >"$1"; } 2>/dev/null ;;
  *) { echo 0 >"/proc/self/fd/$1"; } 2>/dev/null ;;
  esac
  shift
done
shift
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

/** How a command enters its cgroups: by paths, as it would inherit descriptors; or by descriptors after its files, as another user. */
function entriesOf({ groups, files, user }: ExecRequest): {
  readonly entries: readonly string[];
  readonly inherited: readonly string[];
} {
  if (user === undefined) return { entries: groups, inherited: [] };
  return { entries: groups.map((_, index) => String(firstFile + files.length + index)), inherited: groups };
}

/** Starts the shell that enters the cgroups and executes the command, with the request's files and those of `groups` open. */
function spawnCommand(
  { files, cwd, user, oomScoreAdjustment }: ExecRequest,
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  groups: readonly string[],
): ChildProcess {
  const opened: number[] = [];
  const open = (path: string, flags: string): number => {
    const fd = openSync(path, flags);
    opened.push(fd);
    return fd;
  };
  try {
    const opens = [...files.map((path) => open(path, "r")), ...groups.map((path) => open(path, "w"))];
    return withLowerScore(oomScoreAdjustment, () =>
      spawn("/bin/sh", words, {
        cwd,
        env: { ...env, KEELSON_SHIM: enterScript },
        detached: true,
        stdio: ["pipe", "pipe", "pipe", ...opens],
        ...(user !== undefined && { uid: user.uid, gid: user.gid }),
      }),
    );
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}

/** Starts a command alongside a program. It leads its own process group and belongs to the program by its cgroup and environment. */
export function spawnExec(request: ExecRequest): ExecSession {
  const { terminal, processes, deadlines } = request;
  const groups = entriesOf(request);
  const score = String(request.oomScoreAdjustment ?? "");
  const words = ["-c", 'eval "$KEELSON_SHIM"', "keelson-exec", score, ...groups.entries, ""];
  const hasTerminal = terminal !== undefined;
  // Variables that a shell drops or interprets are set by env(1) after it.
  const { inherited, assignments } = splitEnvironment(request.env);
  const command = assignments.length === 0 ? request.command : ["env", ...assignments, ...request.command];
  const inner = terminal === undefined ? { words: command, env: inherited } : terminalCommand(command, inherited, terminal);
  let child: ChildProcess;
  try {
    child = spawnCommand(request, [...words, ...inner.words], inner.env, groups.inherited);
  } catch (error) {
    return failedExec(error);
  } finally {
    request.onOpened?.();
  }
  const { stdin, stdout, stderr, pid } = child;
  if (stdin === null || stdout === null || stderr === null) throw new TypeError("stdio of kind pipe is a stream");
  // The command may exit without reading its input.
  stdin.on("error", () => {});
  /** What was left of the process group when its leader was reaped. Undefined: the leader still reserves the group's id. */
  let left: Promise<readonly ProcessStat[]> | undefined;
  const exited = new Promise<{ readonly exitCode: number }>((resolve) => {
    child.once("error", () => resolve({ exitCode: 126 }));
    child.once("exit", (code, signal) => {
      if (pid !== undefined) left = membersOf(pid, processes);
      resolve({ exitCode: code ?? (signal === null ? 1 : 137) });
    });
  });
  const resize = createResizer(() => pid, processes, deadlines);
  return {
    stdin,
    stdout,
    ...(!hasTerminal && { stderr }),
    async resize(size) {
      if (hasTerminal) await resize(size);
    },
    async signal(signal) {
      if (pid !== undefined && readStat(pid) !== undefined) await signalCommand(pid, signal, processes);
    },
    async kill() {
      if (pid === undefined) return;
      const members = await left;
      const alive = members?.filter((member) => isAlive(member.pid, member.startTime)) ?? [];
      if (members !== undefined && alive.length === 0) return;
      const descendants = await descendantsOf(members === undefined ? [pid] : alive.map((member) => member.pid), processes);
      // The id is not reused while one of the members is in the group.
      const isOurs = left === undefined || alive.some((member) => isMember(member, pid));
      for (const each of [...(isOurs ? [-pid] : []), ...descendants]) {
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
 * another process namespace and in another user namespace than this process (bubblewrap's monitor may be in the first, but not in the
 * second), else the leader of another session, else the process itself.
 */
async function signalCommand(pid: number, signal: NodeJS.Signals, list: ProcessList): Promise<void> {
  const processes = namespaceOf(pid, "pid");
  const users = namespaceOf(process.pid, "user");
  const alive = [pid, ...(await descendantsOf([pid], list))]
    .flatMap((each) => readStat(each) ?? [])
    .filter(({ state }) => state !== "Z");
  const inside = alive.filter((stat) => namespaceOf(stat.pid, "pid") !== processes && namespaceOf(stat.pid, "user") !== users);
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

/** A namespace of a process; undefined if it has terminated. */
function namespaceOf(pid: number, kind: "pid" | "user"): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/${kind}`);
  } catch {
    return undefined;
  }
}

/** The processes of this machine; none if they cannot be listed, as while this process has too many files open. The process group is killed nonetheless. */
const listedOnce = (processes: ProcessList): Promise<readonly ProcessStat[]> => processes.list().catch(() => []);

/** The processes of a group whose leader has just been reaped. */
async function membersOf(group: number, processes: ProcessList): Promise<readonly ProcessStat[]> {
  try {
    process.kill(-group, 0);
  } catch {
    return [];
  }
  return (await listedOnce(processes)).filter((stat) => stat.group === group);
}

/** Whether this very process is still in a group. */
function isMember({ pid, startTime }: ProcessStat, group: number): boolean {
  const stat = readStat(pid);
  return stat?.startTime === startTime && stat.group === group;
}

/** The descendants of processes, parents first. script(1) starts its command in a new session, outside the command's process group. */
async function descendantsOf(pids: readonly number[], processes: ProcessList): Promise<readonly number[]> {
  const all = await listedOnce(processes);
  const found: number[] = [];
  for (let parents = pids; parents.length > 0; ) {
    const children = all.filter((stat) => parents.includes(stat.parent)).map((stat) => stat.pid);
    found.push(...children);
    parents = children;
  }
  return found;
}
