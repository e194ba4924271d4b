import type { Readable, Writable } from "node:stream";
import type { Isolation } from "./isolation.ts";

/** Limits of a program. Each is applied if the machine allows it (a writable cgroup); `Program.limits` says which were. */
export interface Limits {
  /** Thousandths of a CPU, as `500m` in Kubernetes. */
  readonly cpuMillis?: number;
  /**
   * The program's share of the CPU while others want it too, relative to the programs of its driver's group, else to other cgroups: 2 to
   * 262,144, as in cgroup version 1 and the kubelet (1024 per CPU). Best effort. Default: the kernel's, 1024.
   */
  readonly cpuShares?: number;
  readonly memoryBytes?: number;
  readonly pids?: number;
  /** Size of the work directory, and of `/tmp`. Enforced for programs with a private user, in memory. */
  readonly diskBytes?: number;
}

/** The limits that can be changed while a program runs. An absent one stays. */
export type RunningLimits = Pick<Limits, "cpuMillis" | "cpuShares" | "memoryBytes">;

/** What to run. Plain JSON, so that it can be written to disk before the program starts. */
export interface ProgramSpec {
  /** The program's name in its driver: `^[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?$`. It becomes a directory name. */
  readonly id: string;
  /** Program and arguments; never a shell string. */
  readonly command: readonly [string, ...string[]];
  /** The whole environment: nothing is inherited. Default: only PATH. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: `<program directory>/work`, created if it is missing. */
  readonly cwd?: string;
  /** `name`, `uid` or `uid:gid`; needs root. Default: the supervisor's own user. */
  readonly user?: string;
  readonly limits?: Limits;
  /**
   * Added to the score by which the kernel chooses what to kill when memory runs out: -1000 (never) to 1000 (first). A value below the
   * supervisor's own needs permission to lower it (root, and not in most containers), else the program has the supervisor's. Default: the supervisor's.
   */
  readonly oomScoreAdjustment?: number;
  /** Log files are kept as stdout.log, stdout.log.1, ... Default: 3 files of 10 MiB each. */
  readonly logRotation?: { readonly maxBytes: number; readonly maxFiles: number };
  /** Writes both outputs to stdout.log, in the order in which they are written; stderr.log stays empty. Default: one file each. */
  readonly mergeOutput?: boolean;
  /** Stops the program this long after its start, even if another supervisor has adopted it. Default: never. */
  readonly timeoutMs?: number;
  /** First signal of a stop. Default SIGTERM. */
  readonly killSignal?: NodeJS.Signals;
  /** From the first signal to SIGKILL. Default 5000. */
  readonly killGraceMs?: number;
  /**
   * Standard input: a named pipe that `Program.openInput` writes to and that outlives the supervisor. `held`: the input never ends.
   * `once`: the input ends with the first writer, and the program is executed when that writer connects (`containerd`: immediately).
   * Default: empty input.
   */
  readonly input?: "held" | "once";
  /**
   * Starts the program on a terminal of this size. Terminal output goes to stdout.log; data written to the input is typed into the
   * terminal. The terminal outlives the supervisor. Needs script(1), except with `containerd`. Default: no terminal.
   */
  readonly terminal?: TerminalSize;
  /** What the program can see of the machine; not supported by the `process` driver. */
  readonly isolation?: Isolation;
  /** Kept with the program across restarts: a task's uid and attempt, a sandbox's name. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/**
 * The states of a program:
 *
 *     starting --> running --> exited
 *         \----------------------^   (could not be started: `exited` with reason `StartFailed`)
 */
export type ProgramState =
  | { readonly kind: "starting" }
  | { readonly kind: "running"; readonly pid: number; readonly startedAt: number }
  | Exited;

/** How a program terminated. */
export interface Exited {
  readonly kind: "exited";
  /**
   * - `Completed`: exit code 0. `Error`: any other exit code, or a signal that we did not send.
   * - `StartFailed`: the program does not exist, is not executable, its directory is missing ...; see `message`.
   * - `Timeout`, `Stopped`: we stopped it. `OOMKilled`: the kernel killed it.
   * - `Lost`: its exit status could not be determined (the machine restarted, its shim was killed).
   */
  readonly reason: "Completed" | "Error" | "StartFailed" | "Timeout" | "Stopped" | "OOMKilled" | "Lost";
  readonly message: string;
  /** 128 + n for signal n, as in shells and Kubernetes; -1 if unknown. */
  readonly exitCode: number;
  /** Number of the signal that terminated the program, if any. */
  readonly signal?: number;
  /** Milliseconds since the epoch; absent if the program never started. */
  readonly startedAt?: number;
  readonly finishedAt: number;
}

/** Current resource usage of a program. */
export interface ProgramStats {
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly pids: number;
}

/** Size of a terminal, in characters. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** A command to run inside a running program's environment. */
export interface ExecSpec {
  /** Program and arguments, looked up as the running program would. */
  readonly command: readonly [string, ...string[]];
  /** Added to the program's own environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Directory in which the command starts, as the program sees it. Default: the program's. */
  readonly cwd?: string;
  /**
   * `name`, `uid` or `uid:gid` in the program's root: the command runs as this user instead of the program's. A user without an explicit
   * group is in its groups of `/etc/group`. The host ids are those of the program's own range and never the host's users. Needs root, and
   * `containerd`, or `bubblewrap` with `isolation.hasPrivateUser`. Default: the program's user.
   */
  readonly user?: string;
  /** Whether `kill` also ends processes that have left the command's group, and the next driver ends what it finds. Default false. */
  readonly isContained?: boolean;
  /** Runs the command on a terminal of this size, which merges standard output and error. Default: pipes. */
  readonly terminal?: TerminalSize;
}

/** A command that runs alongside a program. It is killed when the program terminates. */
export interface ExecSession {
  /** The command's input. Ending the stream is end of file (with a terminal: hang-up). */
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Absent with a terminal. */
  readonly stderr?: Readable;
  /** Sets the terminal's size; does nothing without a terminal. */
  resize(size: TerminalSize): Promise<void>;
  /** Sends a signal to the command and its process group. Does nothing once it has terminated. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Kills the command and everything it started; once it has exited, what is left of its process group. */
  kill(): Promise<void>;
  /** Resolves when the command has terminated; 126 or 127 if it could not be started, as in shells. Never rejects. */
  exited(): Promise<{ readonly exitCode: number }>;
}

/** Options of {@link Program.stop}. */
export interface StopOptions {
  /** From the first signal to SIGKILL. Default: `ProgramSpec.killGraceMs`. */
  readonly graceMs?: number;
  /** Default: `Stopped`. */
  readonly reason?: "Stopped" | "Timeout";
  /** The program is removed next: its files and exit status need not be kept. Default: false. */
  readonly discard?: boolean;
}

/** A program under supervision. */
export interface Program {
  readonly id: string;
  readonly spec: ProgramSpec;
  /** How it was started; `cold` for a program that was adopted. */
  readonly startKind: StartKind;
  readonly state: ProgramState;
  /** Whether its processes are frozen, see {@link Program.pause}. It is still `running`. */
  readonly isPaused: boolean;
  /** Files that the program itself writes. */
  readonly logs: { readonly stdout: string; readonly stderr: string };
  /** Which of `spec.limits` are enforced, and a message about those that are not. */
  readonly limits: { readonly applied: Limits; readonly message?: string };
  /** Resolves when the program has terminated. */
  exited(): Promise<Exited>;
  /**
   * Calls `listener` when the program has terminated; in the next microtask if it already has. Returns a function that unsubscribes. For what ends
   * before the program: a reaction to {@link Program.exited} is kept until then.
   */
  onExit(listener: () => void): () => void;
  /**
   * Files to which a single-threaded process writes `0` to enter the program's cgroups, so that the program's limits count it. It is killed
   * with the program. Empty if the program does not run or has no cgroups.
   */
  readonly cgroupEntries: readonly string[];
  signal(signal: NodeJS.Signals): void;
  /** Resumes a paused program, sends `killSignal` to the whole tree, then SIGKILL after the grace period. Resolves when no process is left. Idempotent. */
  stop(options?: StopOptions): Promise<Exited>;
  stats(): Promise<ProgramStats>;
  /**
   * Freezes every process of the program, commands alongside it included; resolves when none runs. The program stays paused if the
   * supervisor dies. Its time limit keeps running. Throws `NotRunning`, and `Unsupported` without a freezer: a cgroup of version 2 below
   * the driver's own `cgroupParent`, or containerd.
   */
  pause(): Promise<void>;
  /** Lets a paused program continue. Throws `NotRunning`. */
  resume(): Promise<void>;
  /**
   * Writes to the program's input, see `ProgramSpec.input`; several writers may follow one another. Data is buffered until the program
   * reads it. Throws `NotRunning`, and `Unsupported` for a program without an input.
   */
  openInput(): Writable;
  /** Sets the size of the program's terminal; does nothing if it has none or has terminated. */
  resize(size: TerminalSize): Promise<void>;
  /**
   * Runs a command where the program runs: with its root, mounts, processes, directory and limits. Throws `NotRunning`, `Paused`,
   * `InvalidSpec` for an invalid command or an unknown user, and `Unsupported` if it cannot run as the user.
   */
  exec(spec: ExecSpec): Promise<ExecSession>;
  /**
   * Changes limits of the running program, including those that it was started without. They outlive the supervisor; `spec` keeps the limits of
   * the start. Throws `NotRunning`, `InUse` for a memory limit that is lowered to the current usage or below, and `Unsupported` if the
   * machine cannot enforce one.
   */
  setLimits(limits: RunningLimits): Promise<void>;
  /** Removes a terminated program: its directory, logs and cgroup. Throws `NotEnded` while it runs. */
  remove(): Promise<void>;
}

/** How a program was started: set up when it was requested, in a prepared shell, or in a slot that was prepared for its root. */
export type StartKind = "cold" | "shell" | "image";

/**
 * The slots that a driver keeps ready, so that it need not set up a program's namespaces, cgroup, user and mounts when the program is
 * requested. Command, environment, working directory and the limits of CPU, memory and processes are bound when a program claims a slot.
 * A slot runs one program and is never reused.
 */
export interface WarmPlan {
  /** The isolation, without a root, and the limits of the programs. Programs with other isolation or another disk limit start cold. */
  readonly template: Pick<ProgramSpec, "isolation" | "limits">;
  /** Number of slots for programs with any root below {@link roots}, or with the machine's root. */
  readonly shells: number;
  /** Existing directories below which programs have their roots. */
  readonly roots: readonly string[];
  /** Number of slots for each of {@link images}, with all mounts in place. Shells are used where such slots are not supported. */
  readonly perImage: number;
  /** Roots with their own slots; undefined is the machine's root. */
  readonly images: readonly (string | undefined)[];
}

/** The state of a driver's slots. */
export interface WarmStatus {
  readonly shells: { readonly desired: number; readonly ready: number };
  /** Of all images together. */
  readonly images: { readonly desired: number; readonly ready: number };
  /** Number of programs by how they were started, since the driver was opened. */
  readonly starts: Readonly<Record<StartKind, number>>;
  /** Number of slots that were prepared, and the time that this took in total. */
  readonly refills: { readonly count: number; readonly totalMs: number };
  /** Why slots could not be prepared, if the last attempt failed. */
  readonly problem?: string;
}

/** Programs that a driver prepares before they are requested. */
export interface WarmPrograms {
  /** Changes the slots to keep ready. Surplus slots are removed; missing ones are prepared in the background, a few at a time. */
  keep(plan: WarmPlan): void;
  status(): WarmStatus;
  /** Calls `listener` when a slot becomes ready or ceases to be. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
}

/**
 * Runs programs below one directory and adopts them after a restart. `createProcessDriver` and its siblings create it and pass one contract suite.
 *
 * **Guarantees**: the spec is on disk before the program starts, and the exit status before `exited` resolves; a driver opened on the directory of a
 * dead one supervises the programs that still run (identified by pid and start time) and knows the exit status of the others; programs outlive `close`.
 */
export interface Driver {
  readonly name: "process" | "bubblewrap" | "containerd";
  /** Slots that are prepared before programs are requested. Absent if this driver, or this user, cannot prepare any. */
  readonly warm?: WarmPrograms | undefined;
  /** Starts a program. Throws `AlreadyExists` for a known id and `InvalidSpec`; a program that cannot start is `exited`. */
  start(spec: ProgramSpec): Promise<Program>;
  get(id: string): Program | undefined;
  list(): readonly Program[];
  /** Stops supervising. Programs keep running. */
  close(): Promise<void>;
}

/** Errors of this package; see `code`. */
export class ExecutionError extends Error {
  override readonly name = "ExecutionError";
  /**
   * `InUse`: a memory limit would be below the current usage.
   * `FolderUnusable`: the driver's directory cannot be written (read-only, full, missing permission); nothing was started.
   */
  readonly code:
    | "AlreadyExists"
    | "InvalidSpec"
    | "NotEnded"
    | "NotRunning"
    | "InUse"
    | "Paused"
    | "FolderInUse"
    | "FolderUnusable"
    | "Unsupported";

  constructor(code: ExecutionError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
