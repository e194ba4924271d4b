import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import { StartFailure } from "../process/launcher.ts";
import { describeError } from "../files/file-error.ts";
import type { UserIds } from "../program/user.ts";

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
 *   4 gate (to and from the supervisor), 5 the program's error output, 6.. entry files of the program's groups.
 * A shell has one digit for a descriptor, so these are all.
 */

/** What the shim writes to its exit file, a line each. */
export interface ExitFile {
  /** The program's own process and its start time. */
  readonly program?: { readonly pid: number; readonly startTime: number };
  /** The program could not be executed. */
  readonly execFailed: boolean;
  /** The gate was never opened: nothing ran. */
  readonly unreleased: boolean;
  /** Limits whose cgroup could not be entered. */
  readonly outsideCgroup: boolean;
  /** The kernel ended it for want of memory; only drivers whose cgroups are gone by the time of the question write this. */
  readonly oomKilled: boolean;
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
    unreleased: /^unreleased$/m.test(text),
    outsideCgroup: /^outside$/m.test(text),
    oomKilled: /^oom$/m.test(text),
    ...(exit !== null && { exitCode: Number(exit[1]) }),
  };
}

/** An exit file of a program that has no shim of ours. */
export function exitFileText({ exitCode, oomKilled }: { readonly exitCode: number; readonly oomKilled: boolean }): string {
  return `${oomKilled ? "oom\n" : ""}exit ${exitCode}\n`;
}

/**
 * The script. `trap :` keeps the shim alive when a signal goes to its process group, and is not inherited by the program as
 * an ignored signal would be. The subshell enters its groups while the supervisor still writes; without a word from the gate
 * nothing runs: the supervisor died before it had written down whom it starts. The subshell's EXIT trap fires only where `exec` did not replace it: so a program that cannot be executed
 * is told from one that exits with 127. The descriptors are closed around `exec`, not by it, so that the trap still has
 * them.
 */
const script = (files: string): string => `trap : HUP INT QUIT ALRM TERM USR1 USR2 PIPE XCPU XFSZ VTALRM PROF
keelson_groups=$1 keelson_append=$2 keelson_read=$3 keelson_also=$4 keelson_input=$5 keelson_pipe=$6
shift 6
(
  trap '' PIPE
  for keelson_fd in $keelson_groups; do
    { echo 0 >&"$keelson_fd"; } 2>/dev/null || echo outside >&3
  done
  read -r keelson_stat </proc/self/stat
  keelson_field=3
  for keelson_start in \${keelson_stat##*) }; do
    [ "$keelson_field" -eq 22 ] && break
    keelson_field=$((keelson_field + 1))
  done
  echo "pid \${keelson_stat%% *} $keelson_start" >&3
  read -r keelson_go <&4 && [ "$keelson_go" = go ] || {
    echo unreleased >&3
    exit 0
  }
  echo ready >&4
  exec 2>&5
  case $keelson_input in
    (held) exec <>"$keelson_pipe" ;;
    (once) exec <"$keelson_pipe" ;;
    (waiting) exec 6<"$keelson_pipe" 0<>"$keelson_pipe" 6<&- ;;
    (*) exec </dev/null ;;
  esac
  trap 'echo exec-failed >&3' EXIT
  trap - PIPE
  unset PWD OLDPWD SHLVL
  { exec "$@"; } ${files} 6>&- 7>&- 8>&- 9>&-
)
echo "exit $?" >&3
`;

const scripts = {
  plain: script("3>&- 4>&- 5>&-"),
  withFiles: script('3>>"$keelson_append" 4<"$keelson_read" 5<"$keelson_also"'),
};

/** Words that start a shim. `groups` are the descriptors of the groups' entry files. */
function shimArguments({ command, files, input }: ShimRequest, groups: readonly number[]): readonly string[] {
  const { append = "", read: [first = "", second = ""] = [] } = files ?? {};
  const text = files === undefined ? scripts.plain : scripts.withFiles;
  const pipe = [input?.mode ?? "", input?.path ?? ""];
  return ["-c", text, "keelson-program", groups.join(" "), append, first, second, ...pipe, ...command];
}

/** Names that a shell keeps for itself, or that change how it or its loader runs: not for the shim's own environment. */
const notForShells = /^(?:(?!\w*$)|\d|keelson_|LD_|BASH|ENV$|IFS$|OPTIND$|PPID$|PWD$|OLDPWD$|SHLVL$|SHELLOPTS$|PS\d$|_$)/;

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

/** Files that a command has open besides its input and output. Its user must be allowed to open them. */
export interface ProgramFiles {
  /** Opened for appending, as descriptor 3. */
  readonly append: string;
  /** Opened for reading, as descriptors 4 and 5. */
  readonly read: readonly [string, string];
}

/** The FIFO that a program reads. Its user must be allowed to read and write it. */
export interface ProgramInput {
  readonly path: string;
  /** `held`: it never ends. `once`: it begins and ends with the first writer. `waiting`: it begins with that, and never ends. */
  readonly mode: "held" | "once" | "waiting";
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
  /** Files that the command has open: 3 to append to, 4 and 5 to read. Default: none. */
  readonly files?: ProgramFiles;
  /** What the command reads. Default: nothing. */
  readonly input?: ProgramInput;
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
    child = spawn("/bin/sh", shimArguments(request, groups), {
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
