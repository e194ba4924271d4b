import type { ProgramSpec } from "../driver.ts";
import type { JoinedExecution } from "../process/wrapping.ts";
import { hasPrivateUser } from "../program/users/program-user.ts";
import type { UserIds } from "../program/users/user.ts";
import type { Stage } from "./private-user.ts";
import { closeCall, enterCalls, fileSizeCall, ownMountCalls, stageCalls, userCalls, writeCallProgram } from "./stage-calls.ts";

/** A command alongside a program that a call program stages. */
export interface StagedExec {
  readonly spec: ProgramSpec;
  readonly stage: Stage;
  /** Who bubblewrap is. */
  readonly starter: UserIds & { readonly groups?: readonly number[] };
  /** bubblewrap and its arguments. */
  readonly bwrap: readonly string[];
  /** Files for bubblewrap, as descriptors from 3 on; the second is the process namespace. */
  readonly files: readonly string[];
  /** Namespaces of the program that are entered first. */
  readonly namespaces: readonly string[];
}

/** Descriptor of the process namespace. */
const processes = 4;
const firstFile = 3;

/** Writes a call program to `path`. Returns what is executed for a command, and the files that it inherits, as descriptors from 3 on. */
export function stageExec(
  path: string,
  { spec, stage, starter, bwrap, files, namespaces }: StagedExec,
): Pick<JoinedExecution, "command" | "files"> {
  const opened = [...files, ...namespaces, path];
  const own = firstFile + opened.length - 1;
  const diskBytes = hasPrivateUser(spec) ? spec.limits?.diskBytes : undefined;
  writeCallProgram(path, [
    ...(diskBytes === undefined ? [] : [fileSizeCall(diskBytes)]),
    ...namespaces.flatMap((_, index) => enterCalls(firstFile + files.length + index)),
    ...ownMountCalls(),
    ...enterCalls(processes),
    ...stageCalls(stage, "own"),
    closeCall(own),
    ...userCalls(starter),
  ]);
  // The file is removed once it is open.
  return { command: [`/proc/self/fd/${own}`, ...bwrap], files: opened };
}
