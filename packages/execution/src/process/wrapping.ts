import type { ExecSpec, ProgramSpec } from "../driver.ts";
import type { ReadStartError } from "../shim/shim-exit.ts";
import type { ProgramFiles } from "../shim/shim.ts";
import type { SlotShape } from "../warm/warm-plan.ts";
import type { LaunchRequest } from "./launcher.ts";

/** What a launcher executes for a spec. */
export interface Execution {
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  /** The program's executable, as the program sees it. Only for a slot. */
  readonly path?: string;
  /** Default: the spec's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Files that it inherits. Default: none. */
  readonly opened?: ProgramFiles;
  /** Whether it changes to the program's user itself, so that it starts as the supervisor's. Default: false. */
  readonly changesUser?: boolean;
}

/** What a launcher executes for a command alongside a running program. */
export interface JoinedExecution extends Execution {
  /** Paths that are opened for it, as descriptors from 3 on. */
  readonly files: readonly string[];
  /** Called once they are open. */
  readonly onOpened?: () => void;
}

/** Prepares programs before they are known. */
export interface SlotWrapping {
  /** The kinds of slots that are supported. */
  readonly kinds: readonly SlotShape["kind"][];
  /** What is executed to prepare a slot, and then waits. It inherits `gate` and reports on it, see `ShimRequest.slot`. */
  readonly prepare: (request: LaunchRequest, shape: SlotShape) => Execution;
  /** Resolves when a slot that has reported waits for its claim with all mounts. Rejects if its shim dies or that takes too long. */
  readonly whenPrepared: (request: LaunchRequest, shape: SlotShape, isAlive: () => boolean) => Promise<void>;
  /** Whether a slot of this kind can execute a program. */
  readonly canRun: (kind: SlotShape["kind"], spec: ProgramSpec) => boolean;
  /** Writes the program into the slot's files; it is executed when the gate opens. Runs without waiting. */
  readonly bind: (request: LaunchRequest, execution: Execution, shape: SlotShape) => void;
  /** Whether a terminated program was in a slot that had not been released. */
  readonly wasUnreleased: (request: LaunchRequest) => boolean;
}

/** Runs programs inside another program, such as bubblewrap. */
export interface Wrapping {
  /** Directory that the program sees as `/`, where its command is looked up. Default: the machine's root. */
  readonly rootOf: (request: LaunchRequest) => string | undefined;
  /** What is executed instead of the program. Called once the program is known to be executable. */
  readonly wrap: (request: LaunchRequest, execution: Execution) => Execution;
  /** What is executed for a command alongside a running program. */
  readonly join: (request: LaunchRequest, spec: ExecSpec, wrapper: { readonly pid: number }) => Promise<JoinedExecution>;
  /** Absent if programs cannot be prepared before they are known. */
  readonly slots?: SlotWrapping;
  /** Why the wrapper could not execute the program, if it exited with this code for that reason. */
  readonly readStartError: ReadStartError;
  /** The disk limit that is enforced for a program, if any. */
  readonly diskLimit: (spec: ProgramSpec) => number | undefined;
}
