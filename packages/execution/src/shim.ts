import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import { StartFailure } from "./launcher.ts";
import { describeError } from "./file-error.ts";
import type { UserIds } from "./user.ts";

/*
 * Between the supervisor and a program stands a shell of a few hundred kilobytes. It exists because only a parent learns
 * how a process ended, and the supervisor may be dead by then: the shim stays, waits, and writes the exit code to a file.
 *
 *     supervisor --spawn--> shim (own session)  --fork, exec--> program
 *                            |  \-- fd 0: the write end of a FIFO; it closes when the shim dies, however it dies
 *                            \-- fd 3: the exit file, room in it reserved, so that a full disk loses no exit code
 *
 * The text is a constant: a program's words only ever are "$@". File descriptors of the shim:
 *   0 alive FIFO, 1 the program's output, 2 nothing (a shell remarks on programs that a signal ended), 3 exit file,
 *   4 gate (to and from the supervisor), 5 the program's error output, 6.. cgroup.procs of the program's groups.
 * A shell has one digit for a descriptor, so these are all.
 */

/** What the shim writes to its exit file, a line each. */
export interface ExitFile {
  /** The program's own process and its start time. */
  readonly program?: { readonly pid: number; readonly startTime: number };
  /** The program could not be executed. */
  readonly execFailed: boolean;
  /** Limits whose cgroup could not be entered. */
  readonly outsideCgroup: boolean;
  /** Absent as long as the program runs, and when the shim was killed. */
  readonly exitCode?: number;
}

/** Bytes that are reserved in an exit file; its lines need less than 100. */
export const exitFileBytes = 256;

/** Reads an exit file's text. Lines that it does not know, and the reserve of empty ones, are skipped. */
export function parseExitFile(text: string): ExitFile {
  const program = /^pid (\d+) (\d+)$/m.exec(text);
  const exit = /^exit (\d{1,3})$/m.exec(text);
  return {
    ...(program !== null && { program: { pid: Number(program[1]), startTime: Number(program[2]) } }),
    execFailed: /^exec-failed$/m.test(text),
    outsideCgroup: /^outside$/m.test(text),
    ...(exit !== null && { exitCode: Number(exit[1]) }),
  };
}

/**
 * The script. `trap :` keeps the shim alive when a signal goes to its process group, and is not inherited by the program as
 * an ignored signal would be. Without a word from the gate nothing runs: the supervisor died before it had written down
 * whom it starts. The subshell's EXIT trap fires only where `exec` did not replace it: so a program that cannot be executed
 * is told from one that exits with 127. The descriptors are closed around `exec`, not by it, so that the trap still has
 * them.
 */
const script = `trap : HUP INT QUIT ALRM TERM USR1 USR2 PIPE XCPU XFSZ VTALRM PROF
read -r go <&4 && [ "$go" = go ] || exit 0
groups=$1
shift
(
  trap '' PIPE
  for fd in $groups; do
    { echo 0 >&"$fd"; } 2>/dev/null || echo outside >&3
  done
  read -r stat </proc/self/stat
  pid=\${stat%% *}
  rest=\${stat##*) }
  i=3
  for start in $rest; do
    [ "$i" -eq 22 ] && break
    i=$((i + 1))
  done
  echo "pid $pid $start" >&3
  echo ready >&4
  exec </dev/null 2>&5
  trap 'echo exec-failed >&3' EXIT
  trap - PIPE
  unset PWD OLDPWD SHLVL
  { exec "$@"; } 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
)
echo "exit $?" >&3
`;

/** Words that start a shim with {@link script}. `groups` are the descriptors of cgroup.procs files. */
function shimArguments(command: readonly string[], groups: readonly number[]): readonly string[] {
  return ["-c", script, "keelson-program", groups.join(" "), ...command];
}

/** Names that a shell keeps for itself, or that change how it or its loader runs: not for the shim's own environment. */
const notForShells = /^(?:(?!\w*$)|\d|LD_|BASH|ENV$|IFS$|OPTIND$|PPID$|PWD$|OLDPWD$|SHLVL$|SHELLOPTS$|PS\d$|_$)/;

/**
 * Splits an environment in what passes through the shim as it is, and what only `env` can set behind it: names with dots and
 * the like, which shells drop, and names that would act on the shim. Arguments can be read by other users of the machine
 * (`ps`); an environment cannot. So everything else goes the first way.
 */
export function splitEnvironment(env: Readonly<Record<string, string>>): {
  readonly inherited: Readonly<Record<string, string>>;
  readonly assignments: readonly string[];
} {
  const entries = Object.entries(env);
  return {
    inherited: Object.fromEntries(entries.filter(([name]) => !notForShells.test(name))),
    assignments: entries.filter(([name]) => notForShells.test(name)).map(([name, value]) => `${name}=${value}`),
  };
}

/** What a shim is started with. */
export interface ShimRequest {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly user?: UserIds;
  readonly stdout: number;
  readonly stderr: number;
  readonly exit: number;
  readonly alive: number | "ignore";
  readonly groups: readonly number[];
}

/** A shim that waits at its gate. */
export interface Shim {
  readonly pid: number;
  /** Opens the gate; resolves when the program is about to be executed, or the shim is gone. */
  release(): Promise<void>;
  /** Shuts the gate for good: the shim exits without having run anything. */
  abandon(): void;
  /** Resolves when the shim has ended. */
  readonly ended: Promise<void>;
  /** Lets this process exit although the shim runs. */
  unref(): void;
}

/** The first descriptor of `groups` in the shim. */
const firstGroup = 6;

/** Starts a shim. Throws {@link StartFailure} where the machine has no process, memory or shell for it. */
export async function spawnShim(request: ShimRequest): Promise<Shim> {
  const groups = request.groups.map((_, index) => firstGroup + index);
  let child: ChildProcess;
  try {
    child = spawn("/bin/sh", shimArguments(request.command, groups), {
      cwd: request.cwd,
      env: { ...request.env },
      // Its own session: a terminal's signals and the supervisor's end do not reach it.
      detached: true,
      stdio: [request.alive, request.stdout, "ignore", request.exit, "pipe", request.stderr, ...request.groups],
      ...(request.user !== undefined && { uid: request.user.uid, gid: request.user.gid }),
    });
    if (child.pid === undefined) await once(child, "spawn");
  } catch (error) {
    throw new StartFailure(`The program could not be started: ${describeError(error)}`, 126);
  }
  const pid = child.pid ?? -1;
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const gate = child.stdio[4];
  if (!(gate instanceof Socket)) throw new TypeError("a descriptor of kind pipe is a socket");
  const answered = new Promise<void>((resolve) => {
    gate.once("data", () => resolve());
    gate.once("close", () => resolve());
    // A shim that is killed at its gate resets the connection; `close` follows.
    gate.on("error", () => {});
  });
  return {
    pid,
    ended,
    async release() {
      gate.write("go\n");
      await Promise.race([answered, ended]);
      gate.destroy();
    },
    abandon: () => void gate.destroy(),
    unref: () => child.unref(),
  };
}
