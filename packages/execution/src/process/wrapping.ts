import type { ExecSpec, ProgramSpec } from "../driver.ts";
import type { ReadStartError } from "../shim/shim-exit.ts";
import type { ProgramFiles } from "../shim/shim.ts";
import type { LaunchRequest } from "./launcher.ts";

/** What a launcher executes for a spec. */
export interface Execution {
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  /** Default: the spec's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Files that it inherits. Default: none. */
  readonly opened?: ProgramFiles;
}

/** What a launcher executes for a command beside a running program. */
export interface JoinedExecution extends Execution {
  /** Paths that are opened for it, as descriptors from 3 on. */
  readonly files: readonly string[];
  /** Folder that is removed once they are open. */
  readonly temporary?: string;
}

/** Runs programs inside another program, such as bubblewrap. */
export interface Wrapping {
  /** Folder that the program sees as `/`, where its command is looked up. Default: the machine's root. */
  readonly rootOf: (request: LaunchRequest) => string | undefined;
  /** What is executed instead of the program. Called once the program is known to be executable. */
  readonly wrap: (request: LaunchRequest, execution: Execution) => Execution;
  /** What is executed for a command beside a running program. */
  readonly join: (request: LaunchRequest, spec: ExecSpec, wrapper: { readonly pid: number }) => Promise<JoinedExecution>;
  /** Why the wrapper could not execute the program, if it exited with this code for that reason. */
  readonly readStartError: ReadStartError;
  /** The disk limit that is enforced for a program, if any. */
  readonly diskLimit: (spec: ProgramSpec) => number | undefined;
}
