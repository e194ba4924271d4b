import type { ExecSession, ExecSpec, Limits, ProgramSpec, ProgramStats, TerminalSize } from "../driver.ts";
import type { Deadlines } from "../program/deadlines.ts";
import type { ProgramFolder } from "../program/program-folder.ts";

/** What a launcher needs to know of a program. */
export interface LaunchRequest {
  readonly spec: ProgramSpec;
  readonly folder: ProgramFolder;
  readonly deadlines: Deadlines;
}

/** How a program ended, as far as its launcher can tell. Why (we stopped it, it took too long) is the supervisor's to know. */
export type Ending =
  | { readonly kind: "exited"; readonly exitCode: number; readonly oomKilled: boolean }
  | { readonly kind: "start-failed"; readonly exitCode: number; readonly message: string }
  | { readonly kind: "lost"; readonly message: string };

/** What is written down so that a later supervisor finds the program: JSON that only its launcher reads. */
export type Identity = Readonly<Record<string, string | number>>;

/** A program that is ready to start and does not run yet. */
export interface PreparedProgram {
  readonly identity: Identity;
  /** Lets it run. To be called when `identity` is on disk; if the supervisor dies before, the program never runs. */
  release(): Promise<LaunchedProgram>;
  /** Drops it. */
  abandon(): Promise<void>;
}

/** A program that runs, or has ended without being collected. */
export interface LaunchedProgram {
  /** The program's own process. */
  readonly pid: number;
  readonly limits: { readonly applied: Limits; readonly message?: string };
  /** Resolves when the program's own process has ended; never rejects. Things that it left behind may still run. */
  readonly ended: Promise<Ending>;
  /** How long it runs already, by a clock that does not jump. */
  elapsedMs(): number;
  /** Sends a signal to every process of the program. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Kills every process of the program and resolves when none is left. */
  kill(): Promise<void>;
  stats(): Promise<ProgramStats>;
  /** Sets the size of the program's terminal. Only called for a program that has one. */
  resize(size: TerminalSize): Promise<void>;
  /** The writer of an input that is there `once` has ended. Absent where its end is seen by itself. */
  endInput?(): Promise<void>;
  /** Runs a command beside the program. Only called while the program runs. */
  exec(spec: ExecSpec): Promise<ExecSession>;
  /** Frees what the kernel still holds for a program that has ended: its cgroup. */
  cleanUp(): Promise<void>;
  /** Stops watching; the program goes on. */
  detach(): void;
}

/** What is told of a program whose supervisor died between making it ready and letting it run. */
export const neverRan = "Its supervisor ended before the program was started; it never ran";

/** Why a program could not be started, for its owner to read. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
  /** What a shell would have given: 127 not found, 126 found and not executable. */
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** How programs of one kind of driver are brought to life; all else (folders, timeouts, logs, restarts) is shared. */
export interface Launcher {
  /** Makes a program ready. Throws {@link StartFailure}. */
  prepare(request: LaunchRequest): Promise<PreparedProgram>;
  /** Finds a program that an earlier supervisor started: `ended` of one that is gone resolves at once. */
  adopt(request: LaunchRequest, identity: Identity): Promise<LaunchedProgram>;
  /** Kills and removes whatever may be left of a program whose identity is unknown. */
  sweep(folder: ProgramFolder, deadlines: Deadlines): Promise<void>;
  /** Ends and removes what runs of programs below the driver's folder `dir` whose own folders are gone, where that can be known. */
  sweepOrphans?(dir: string, deadlines: Deadlines): Promise<void>;
  /** Frees what is shared by programs and that none uses any more. Programs go on. */
  close?(): void;
}
