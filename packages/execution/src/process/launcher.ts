import type { ExecSession, ExecSpec, Limits, ProgramSpec, ProgramStats, RunningLimits, TerminalSize } from "../driver.ts";
import type { BindMount } from "../isolation.ts";
import type { Deadlines } from "../program/deadlines.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import type { Unmounter } from "../program/files/size-limit.ts";
import type { SlotShape } from "../warm/warm-plan.ts";

/** The program to launch. */
export interface LaunchRequest {
  readonly spec: ProgramSpec;
  readonly folder: ProgramFolder;
  readonly deadlines: Deadlines;
  readonly unmounter: Unmounter;
  /** The mounts that show the program its own cgroups. Default: none. */
  readonly cgroupView?: readonly BindMount[];
}

/** How a program terminated, as observed by its launcher. Why (stopped, timed out) is known to the supervisor. */
export type Termination =
  | {
      readonly kind: "exited";
      readonly exitCode: number;
      readonly oomKilled: boolean;
      /** Whether a signal killed it. Undefined if it may also have exited with 128 + n itself. */
      readonly isSignalled?: boolean;
      /** When it terminated, in milliseconds since the epoch by the machine's clock. Used if no supervisor saw it. */
      readonly endedAt?: number;
    }
  | { readonly kind: "start-failed"; readonly exitCode: number; readonly message: string }
  | { readonly kind: "lost"; readonly message: string };

/** Identifies a program to a later supervisor: JSON that only its launcher reads. */
export type Identity = Readonly<Record<string, string | number>>;

/** A program that is ready to run and waits for its release. */
export interface PreparedProgram {
  readonly identity: Identity;
  /** Lets it run. Call it once `identity` is on disk; if the supervisor dies earlier, the program never runs. */
  release(): Promise<LaunchedProgram>;
  /** Discards it without running it. */
  abandon(): Promise<void>;
}

/** A program that runs, or has terminated and not been cleaned up. */
export interface LaunchedProgram {
  /** The program's own process. */
  readonly pid: number;
  readonly limits: { readonly applied: Limits; readonly message?: string };
  /** See `Program.cgroupEntries`. */
  readonly cgroupEntries: readonly string[];
  /** Resolves when the program's own process has terminated; never rejects. Its descendants may still run. */
  readonly ended: Promise<Termination>;
  /** How long it has been running, by a monotonic clock. */
  elapsedMs(): number;
  /** Sends a signal to every process of the program. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Kills every process of the program and resolves when none is left. */
  kill(): Promise<void>;
  stats(): Promise<ProgramStats>;
  /** Freezes every process of the program. Throws `Unsupported`. */
  pause(): Promise<void>;
  /** Lets a frozen program continue; does nothing if it is not frozen. */
  resume(): Promise<void>;
  /** Whether the program is frozen. */
  isPaused(): Promise<boolean>;
  /** Changes limits. Throws `InUse` and `Unsupported`. Only called while the program runs. */
  setLimits(limits: RunningLimits): Promise<void>;
  /** Sets the size of the program's terminal. Only called for a program that has one. */
  resize(size: TerminalSize): Promise<void>;
  /** Ends an input of kind `once` when its writer closes. Absent if the program notices by itself. */
  endInput?(): Promise<void>;
  /** Runs a command alongside the program. Only called while the program runs. */
  exec(spec: ExecSpec): Promise<ExecSession>;
  /** Frees kernel resources of a terminated program: its cgroup, and its mounts unless it is discarded next. */
  cleanUp(options: { readonly isDiscarded: boolean }): Promise<void>;
  /** Stops watching; the program keeps running. */
  detach(): void;
}

/** A slot that waits for a program, see `WarmPlan`. */
export interface PreparedSlot {
  /** Resolves when the slot can no longer be claimed. */
  readonly ended: Promise<void>;
  /** Whether a program whose isolation fits can be executed in it. */
  canRun(spec: ProgramSpec): boolean;
  /** Prepares the program to run in the slot. Nothing of the spec reaches the slot before the release. Throws {@link StartFailure}. */
  claim(request: LaunchRequest): Promise<PreparedProgram>;
  /** Discards it without running anything. */
  abandon(): Promise<void>;
}

/** Message for a program whose supervisor died between preparation and release. */
export const neverRanMessage = "the supervisor terminated before the program was released; it never ran";

/** A program could not be started; the message says why. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
  /** A shell's exit code for it: 127 not found, 126 found but not executable. */
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Starts the programs of one driver; directories, timeouts, logs and re-adoption are shared by all drivers. */
export interface Launcher {
  /** Prepares a program. Throws {@link StartFailure}. */
  prepare(request: LaunchRequest): Promise<PreparedProgram>;
  /** The kinds of slots that are supported. Default: none. */
  readonly slotKinds?: readonly SlotShape["kind"][];
  /** Prepares a slot; its files are in the request's directory, which moves when the slot is claimed. Throws {@link StartFailure}. */
  prepareSlot?(request: LaunchRequest, shape: SlotShape): Promise<PreparedSlot>;
  /** Adopts a program of an earlier supervisor; if it has terminated, `ended` resolves immediately. */
  adopt(request: LaunchRequest, identity: Identity): Promise<LaunchedProgram>;
  /** Kills and removes the remains of a program whose identity is unknown. */
  sweep(folder: ProgramFolder, deadlines: Deadlines): Promise<void>;
  /** Kills and removes programs below the driver's directory `dir` whose own directories were deleted, if they can be found. */
  sweepOrphans?(dir: string, deadlines: Deadlines): Promise<void>;
  /** Frees unused shared resources. Programs keep running. */
  close?(): void;
}
