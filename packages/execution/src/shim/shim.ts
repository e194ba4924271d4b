import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import { StartFailure } from "../process/launcher.ts";
import { withLowerScore } from "../process/oom-score.ts";
import { describeError } from "../files/file-error.ts";
import type { UserIds } from "../program/users/user.ts";

/*
 * A small shell runs between the supervisor and each program. Only a parent can read a process's exit status, and the supervisor may
 * be dead by then: the shim waits and writes the exit code to a file.
 *
 *     supervisor --spawn--> shim (own session)  --fork, exec--> program
 *                            |  \-- fd 0: the write end of a FIFO; it closes when the shim dies, however it dies
 *                            \-- fd 3: the exit file with reserved space, so that a full disk loses no exit code
 *
 * The script is constant: the program's arguments are only ever "$@". It is passed in a variable, so that `ps` shows the program's command
 * line and not the script. File descriptors of the shim:
 *   0 alive FIFO, 1 the program's stdout, 2 and 3 exit file, 4 gate (to and from the supervisor), 5 the program's stderr,
 *   6.. entry files of the program's cgroups.
 * A shell prints a message about a program that a signal killed, which tells it from a program that exits with 128 + n itself. Shells print
 * none for SIGINT and SIGPIPE.
 * The command of a slot inherits the gate as descriptor 6 and the file of its claim as 7: it prepares itself, reports `staged`, and waits.
 * Shells accept single-digit descriptors only, so there are no more.
 */

/** The variable with the script. The script unsets it. */
const scriptVariable = "KEELSON_SHIM";

/**
 * The shim's script. `trap :` keeps the shim alive when its process group is signalled; unlike an ignored signal it is not inherited by
 * the program. The subshell enters its cgroups while the supervisor still writes. It runs nothing until the gate says "go": the
 * supervisor may have died before it recorded the program. The subshell's EXIT trap fires only if `exec` fails, which distinguishes a
 * program that cannot be executed from one that exits with 127. The descriptors are closed around `exec`, not by it, so that the trap
 * can still write to them.
 */
const script = (files: string, gate = shimGate, inherited = ""): string => `unset ${scriptVariable}
trap : HUP INT QUIT ALRM TERM USR1 USR2 PIPE XCPU XFSZ VTALRM PROF
keelson_groups=$1 keelson_append=$2 keelson_read=$3 keelson_also=$4 keelson_input=$5 keelson_pipe=$6 keelson_claim=$7 keelson_oom=$8
shift 8
(
  trap '' PIPE
  for keelson_fd in $keelson_groups; do
    { echo 0 >&"$keelson_fd"; } 2>/dev/null || echo outside >&3
  done
  [ "$keelson_oom" = "" ] || { echo "$keelson_oom" >/proc/self/oom_score_adj; } 2>/dev/null
  read -r keelson_stat </proc/self/stat
  keelson_field=3
  for keelson_start in \${keelson_stat##*) }; do
    [ "$keelson_field" -eq 22 ] && break
    keelson_field=$((keelson_field + 1))
  done
  echo "pid \${keelson_stat%% *} $keelson_start" >&3
  ${gate}
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
  { exec "$@"; } ${files} ${inherited === "" ? "6>&- 7>&-" : inherited} 8>&- 9>&-
)
echo "exit $?" >&3
`;

/** Waits for the release before the command is executed. */
const shimGate = `read -r keelson_go <&4 && [ "$keelson_go" = go ] || {
    echo unreleased >&3
    exit 0
  }
  echo ready >&4`;

const filesOfProgram = '3>>"$keelson_append" 4<"$keelson_read" 5<"$keelson_also"';

const scripts = {
  plain: script("3>&- 4>&- 5>&-"),
  withFiles: script(filesOfProgram),
  slot: script(filesOfProgram, "exec 6<&4", '7<"$keelson_claim"'),
};

/** The arguments that start a shim. `groups` are the descriptors of the cgroups' entry files. */
function shimArguments(
  { command, files, input, slot, oomScoreAdjustment }: ShimRequest,
  groups: readonly number[],
): readonly string[] {
  const { append = "", read: [first = "", second = ""] = [] } = files ?? {};
  const pipe = [input?.mode ?? "", input?.path ?? ""];
  return [
    "-c",
    `eval "$${scriptVariable}"`,
    "keelson-program",
    groups.join(" "),
    append,
    first,
    second,
    ...pipe,
    slot?.claim ?? "",
    String(oomScoreAdjustment ?? ""),
    ...command,
  ];
}

/** Variables that a shell reserves, or that change how it or its loader runs; they must not reach the shim. */
const reservedByShells =
  /^(?:(?!\w*$)|\d|keelson_|KEELSON_SHIM$|LD_|BASH|ENV$|IFS$|OPTIND$|PPID$|PWD$|OLDPWD$|SHLVL$|SHELLOPTS$|PS\d$|_$)/;

/**
 * Splits an environment into variables that pass through the shim unchanged and those that only env(1) can set after it: names that
 * shells drop, such as those with dots, and names that would affect the shim. Other users can read arguments (`ps`) but not an
 * environment, so as many as possible are inherited.
 */
export function splitEnvironment(env: Readonly<Record<string, string>>): {
  readonly inherited: Readonly<Record<string, string>>;
  readonly assignments: readonly string[];
} {
  const entries = Object.entries(env);
  return {
    inherited: Object.fromEntries(entries.filter(([name]) => !reservedByShells.test(name))),
    assignments: entries.filter(([name]) => reservedByShells.test(name)).map(([name, value]) => `${name}=${value}`),
  };
}

/** Files that a command inherits in addition to its input and output. Its user must be allowed to open them. */
export interface ProgramFiles {
  /** Opened for appending, as descriptor 3. */
  readonly append: string;
  /** Opened for reading, as descriptors 4 and 5. */
  readonly read: readonly [string, string];
}

/** The FIFO that a program reads. Its user must be allowed to read and write it. */
export interface ProgramInput {
  readonly path: string;
  /** `held`: never ends. `once`: begins and ends with the first writer. `waiting`: begins with the first writer and never ends. */
  readonly mode: "held" | "once" | "waiting";
}

/** The parameters of a shim. */
export interface ShimRequest {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly user?: UserIds;
  readonly stdout: number;
  readonly stderr: number;
  readonly exit: number;
  readonly alive: number | "ignore";
  /** Files that the command inherits: 3 to append to, 4 and 5 to read. Default: none. */
  readonly files?: ProgramFiles;
  /** The command's input. Default: empty. */
  readonly input?: ProgramInput;
  readonly groups: readonly number[];
  /** See `ProgramSpec.oomScoreAdjustment`. */
  readonly oomScoreAdjustment?: number;
  /** The command waits for the release itself: it inherits the gate, and this file. Needs `files`. */
  readonly slot?: { readonly claim: string };
}

/** A shim that waits for its release. */
export interface Shim {
  readonly pid: number;
  /** Resolves when a slot waits for its release. Rejects with a {@link StartFailure} if the shim exits before. */
  readonly staged: Promise<void>;
  /** Releases the program; resolves when it is about to be executed, or the shim has exited. */
  release(): Promise<void>;
  /** Releases a slot that does not respond. */
  open(): void;
  /** Makes the shim exit without running anything. */
  abandon(): void;
  /** Resolves when the shim has exited. */
  readonly ended: Promise<void>;
  /** Lets this process exit while the shim runs. */
  unref(): void;
}

const scriptOf = ({ files, slot }: ShimRequest): string =>
  slot !== undefined ? scripts.slot : files === undefined ? scripts.plain : scripts.withFiles;

function rejectEnded(): never {
  throw new StartFailure("could not start the program: its shim has exited", 126);
}

/** The lines that a shim, or a slot's command, writes to the gate. */
class GateReports {
  readonly #waiting = new Map<string, () => void>();
  #text = "";
  #isClosed = false;

  constructor(gate: Socket) {
    gate.on("data", (chunk: Buffer) => {
      this.#text += chunk.toString("latin1");
      this.#settle();
    });
    gate.once("close", () => {
      this.#isClosed = true;
      this.#settle();
    });
    // A killed shim resets the connection; `close` follows.
    gate.on("error", () => {});
  }

  /** Resolves when the report has arrived, or the gate is closed. */
  received(report: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(report, resolve);
      this.#settle();
    });
  }

  #settle(): void {
    for (const [report, resolve] of this.#waiting) {
      if (!this.#isClosed && !this.#text.split("\n").includes(report)) continue;
      this.#waiting.delete(report);
      resolve();
    }
  }
}

/** The first descriptor of `groups` in the shim. */
const firstGroup = 6;

/** Starts a shim. Throws {@link StartFailure} if the machine lacks a process slot, memory or a shell. */
export async function spawnShim(request: ShimRequest): Promise<Shim> {
  const groups = request.groups.map((_, index) => firstGroup + index);
  let child: ChildProcess;
  try {
    child = withLowerScore(request.oomScoreAdjustment, () =>
      spawn("/bin/sh", shimArguments(request, groups), {
        cwd: request.cwd,
        env: { ...request.env, [scriptVariable]: scriptOf(request) },
        // Its own session: a terminal's signals and the supervisor's end do not reach it.
        detached: true,
        stdio: [request.alive, request.stdout, request.exit, request.exit, "pipe", request.stderr, ...request.groups],
        ...(request.user !== undefined && { uid: request.user.uid, gid: request.user.gid }),
      }),
    );
    if (child.pid === undefined) await once(child, "spawn");
  } catch (error) {
    throw new StartFailure(`could not start the program: ${describeError(error)}`, 126);
  }
  const pid = child.pid ?? -1;
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const gate = child.stdio[4];
  if (!(gate instanceof Socket)) throw new TypeError("descriptor 4 must be a pipe");
  const reports = new GateReports(gate);
  const staged = Promise.race([reports.received("staged"), ended.then(rejectEnded)]);
  // Only a slot's is awaited.
  staged.catch(() => {});
  const release = async (): Promise<void> => {
    gate.write("go\n");
    await Promise.race([reports.received("ready"), ended]);
    gate.destroy();
  };
  return {
    ...{ pid, ended, staged, release },
    open: () => void gate.end("go\n"),
    abandon: () => void gate.destroy(),
    unref: () => child.unref(),
  };
}
