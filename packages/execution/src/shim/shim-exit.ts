import { readFileSync, statSync } from "node:fs";
import { constants } from "node:os";
import { wasOomKilled } from "../cgroup/cgroup.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import { neverRanMessage } from "../process/launcher.ts";
import type { Termination, LaunchRequest } from "../process/launcher.ts";
import { readErrorTail } from "../program/files/program-files.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { parseExitFile } from "./exit-file.ts";
import type { ExitFile } from "./exit-file.ts";

/** Explains why a wrapper could not execute the program, if it exited with `exitCode` for that reason. */
export type ReadStartError = (
  request: LaunchRequest,
  exitCode: number,
) => { readonly exitCode: number; readonly message: string } | undefined;

/** Reads what a shim has written so far; as an empty file if there is none. */
export function readExit(folder: ProgramFolder): ExitFile {
  try {
    return parseExitFile(readFileSync(folder.exit, "latin1"));
  } catch {
    return parseExitFile("");
  }
}

/** Reads how a program terminated once its shim has. `lostMessage` is reported if the shim left no exit code. */
export function readTermination(
  request: LaunchRequest,
  options: {
    readonly lostMessage: string;
    readonly readStartError: ReadStartError | undefined;
    readonly wasUnreleased: ((request: LaunchRequest) => boolean) | undefined;
    readonly hierarchies: readonly CgroupHierarchy[];
    /** Whether the shim's child is another program, which exits with 128 + n if a signal has killed the program. */
    readonly isWrapped: boolean;
  },
): Termination {
  const { folder, spec } = request;
  const { exitCode, ...exit } = readExit(folder);
  if (exit.unreleased || options.wasUnreleased?.(request) === true) return { kind: "lost", message: neverRanMessage };
  if (exitCode === undefined) return { kind: "lost", message: options.lostMessage };
  const failed = (code: number, why: string): Termination => ({
    kind: "start-failed",
    exitCode: code,
    message: `could not execute the program: ${why}`,
  });
  if (exit.execFailed) return failed(exitCode, readErrorTail(folder, spec).replace(/^.*?: \d+: (?:exec: )?/, ""));
  const problem = options.readStartError?.(request, exitCode);
  if (problem !== undefined) return failed(problem.exitCode, problem.message);
  const oomKilled = exitCode === 137 && wasOomKilled(options.hierarchies, folder.tag);
  const endedAt = modifiedAt(folder.exit);
  const isSignalled = wasSignalled({ exitCode, hasMessage: exit.hasMessage, isWrapped: options.isWrapped });
  return {
    ...{ kind: "exited", exitCode, oomKilled },
    ...(isSignalled !== undefined && { isSignalled }),
    ...(endedAt !== undefined && { endedAt }),
  };
}

/** Signals that shells do not report. */
const silentSignals: ReadonlySet<number> = new Set([constants.signals.SIGINT, constants.signals.SIGPIPE]);

function wasSignalled(exit: {
  readonly exitCode: number;
  readonly hasMessage: boolean;
  readonly isWrapped: boolean;
}): boolean | undefined {
  if (exit.hasMessage) return true;
  return exit.isWrapped || silentSignals.has(exit.exitCode - 128) ? undefined : false;
}

/** The time of the last write to a file, by the wall clock: the shim writes the exit file when the program terminates. */
function modifiedAt(path: string): number | undefined {
  try {
    return Math.floor(statSync(path).mtimeMs);
  } catch {
    return undefined;
  }
}
