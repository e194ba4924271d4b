import type { Readable, Writable } from "node:stream";
import type { Isolation } from "./isolation.ts";

/** Limits of a program. Each is applied where the machine lets us (a writable cgroup); `Program.limits` says which were. */
export interface Limits {
  /** Thousandths of a cpu, as `500m` in Kubernetes. */
  readonly cpuMillis?: number;
  readonly memoryBytes?: number;
  readonly pids?: number;
}

/** What to run. JSON, so that it can be written down before the program starts. */
export interface ProgramSpec {
  /** The program's name in its supervisor: `^[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?$`. It becomes a folder. */
  readonly id: string;
  /** Program and arguments; never a shell string. */
  readonly command: readonly [string, ...string[]];
  /** The whole environment: nothing is inherited. Default: empty but for PATH. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: `<program folder>/work`, made when it is not there. */
  readonly cwd?: string;
  /** `name`, `uid` or `uid:gid`; needs root. Default: the supervisor's own. */
  readonly user?: string;
  readonly limits?: Limits;
  /** Log files are kept as stdout.log, stdout.log.1, ... Default 10 MiB each, 3 of them. */
  readonly logRotation?: { readonly maxBytes: number; readonly maxFiles: number };
  /** Both outputs go to stdout.log, in the order in which they are written; stderr.log stays empty. Default: one file each. */
  readonly mergeOutput?: boolean;
  /** Ends the program this long after its start, whatever supervisor runs then. Default: never. */
  readonly timeoutMs?: number;
  /** First signal of a stop. Default SIGTERM. */
  readonly killSignal?: NodeJS.Signals;
  /** From the first signal to SIGKILL. Default 5000. */
  readonly killGraceMs?: number;
  /**
   * What it reads: a named pipe that `Program.openInput` writes to, and that outlives the supervisor. `held`: its input never ends.
   * `once`: it ends with the first
   * writer's, and the program is executed when that writer is there (`containerd`: at once).
   * Default: nothing, the end at once.
   */
  readonly input?: "held" | "once";
  /**
   * It has a terminal from its start, at first of this size; what the terminal shows goes to stdout.log. What is written to the input is
   * typed there, and never ends. The terminal outlives the supervisor. Needs script(1), but with `containerd`. Default: none.
   */
  readonly terminal?: TerminalSize;
  /** What it sees of the machine; not for the `process` driver. */
  readonly isolation?: Isolation;
  /** Kept with the program for its owner, across restarts: a task's uid and attempt, a sandbox's name. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/**
 * A program's life:
 *
 *     starting --> running --> exited
 *         \----------------------^   (could not be started: `exited` with reason `StartFailed`)
 */
export type ProgramState =
  | { readonly kind: "starting" }
  | { readonly kind: "running"; readonly pid: number; readonly startedAt: number }
  | Exited;

/** How a program ended. */
export interface Exited {
  readonly kind: "exited";
  /**
   * - `Completed`: exit code 0. `Error`: any other, or a signal from elsewhere.
   * - `StartFailed`: there is no such program, it may not be executed, the folder is missing ...: `message` says.
   * - `Timeout`, `Stopped`: we ended it. `OOMKilled`: the kernel did.
   * - `Lost`: it ended while nobody could see how (the machine restarted, its shim was killed).
   */
  readonly reason: "Completed" | "Error" | "StartFailed" | "Timeout" | "Stopped" | "OOMKilled" | "Lost";
  readonly message: string;
  /** 128 + n where a signal ended it, as shells and Kubernetes have it; -1 where nobody knows. */
  readonly exitCode: number;
  /** Signal number that ended it, where one did. */
  readonly signal?: number;
  /** Milliseconds since the epoch; absent where it never started. */
  readonly startedAt?: number;
  readonly finishedAt: number;
}

/** What a program uses now. */
export interface ProgramStats {
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly pids: number;
}

/** A size of a terminal, in characters. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** A command to run beside a program. */
export interface ExecSpec {
  /** Program and arguments, looked up as the running program would. */
  readonly command: readonly [string, ...string[]];
  /** Over the program's own. */
  readonly env?: Readonly<Record<string, string>>;
  /** A terminal of this size; standard output and error are one then. Default: pipes. */
  readonly terminal?: TerminalSize;
}

/** A command that runs beside a program. It ends when the program ends. */
export interface ExecSession {
  /** Its input. Ending it is the command's end of file (with a terminal: hangs up). */
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Absent with a terminal. */
  readonly stderr?: Readable;
  /** Sets the terminal's size; nothing without one. */
  resize(size: TerminalSize): Promise<void>;
  /** Ends the command, with what it started. */
  kill(): Promise<void>;
  /** Resolves when it has ended; 126 and 127 also where it could not be started, as shells have it. Never rejects. */
  exited(): Promise<{ readonly exitCode: number }>;
}

/** A program under supervision. */
export interface Program {
  readonly id: string;
  readonly spec: ProgramSpec;
  readonly state: ProgramState;
  /** Files that the program itself writes. */
  readonly logs: { readonly stdout: string; readonly stderr: string };
  /** Which of `spec.limits` hold, and a message for those that do not. */
  readonly limits: { readonly applied: Limits; readonly message?: string };
  /** Resolves when it has ended; at once when it has already. */
  exited(): Promise<Exited>;
  signal(signal: NodeJS.Signals): void;
  /** `killSignal` to the whole tree, then SIGKILL after the grace. Resolves when nothing of it is left. Idempotent. */
  stop(options?: { readonly graceMs?: number; readonly reason?: "Stopped" | "Timeout" }): Promise<Exited>;
  stats(): Promise<ProgramStats>;
  /**
   * Writes to the program's input, see `ProgramSpec.input`; several may, one after another. It is kept until the program has come so far as
   * to read it, and ends with the program. Throws `NotRunning`, and `Unsupported` for a program without an input.
   */
  openInput(): Writable;
  /** Sets the size of the program's terminal; nothing where it has none, or has ended. */
  resize(size: TerminalSize): Promise<void>;
  /**
   * Runs a command where the program runs: its root, mounts, processes, user, folder, limits. Throws `NotRunning`, and
   * `InvalidSpec` for a command that no program can have.
   */
  exec(spec: ExecSpec): Promise<ExecSession>;
  /** Removes a program that has ended: its folder, logs and cgroup. Throws `NotEnded` before. */
  remove(): Promise<void>;
}

/**
 * Runs programs below one folder and finds them again. A driver is made by `createProcessDriver` and its like; all pass one
 * contract suite.
 *
 * **Guarantees**: the spec is on disk before the program starts, and how it ended before `exited` resolves; a driver that
 * is opened on the folder of one that died supervises what still runs (found by pid and start time) and knows how the
 * others ended; programs outlive `close`.
 */
export interface Driver {
  readonly name: "process" | "bubblewrap" | "containerd";
  /** Starts a program. Throws `AlreadyExists` for a known id and `InvalidSpec`; a program that cannot start is `exited`. */
  start(spec: ProgramSpec): Promise<Program>;
  get(id: string): Program | undefined;
  list(): readonly Program[];
  /** Stops supervising. Programs go on running. */
  close(): Promise<void>;
}

/** Errors of this package; `code` says which. */
export class ExecutionError extends Error {
  override readonly name = "ExecutionError";
  /** `FolderUnusable`: the driver's folder cannot be written (read-only, full, missing permission); nothing was started. */
  readonly code: "AlreadyExists" | "InvalidSpec" | "NotEnded" | "NotRunning" | "FolderInUse" | "FolderUnusable" | "Unsupported";

  constructor(code: ExecutionError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
