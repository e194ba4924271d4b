import { ExecutionError } from "../driver.ts";
import { hasEnded, readStat } from "../process/proc.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { bubblewrapChild } from "../program/network-namespace.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { hasEnteredRoot } from "../program/program-root.ts";
import { statusFile } from "./bubblewrap-options.ts";

/** Maximum time for bubblewrap to enter its root, and maximum pause, after 1, 2, 4 ... ms, between looks at it. */
const maxStartMs = 10_000;
const maxPauseMs = 64;

/**
 * The host pid of process 1 of a program's namespaces, as soon as it has its users and its root. bubblewrap reports the pid before it maps
 * the users: a command that joined earlier would run without a user, and without the mounts that it shares. `wrapper` is the pid of
 * bubblewrap, or of its parent.
 *
 * **Errors**: {@link ExecutionError} `NotRunning`, as soon as one of the processes has ended, or after 10 seconds.
 */
export async function innerProcess(
  folder: ProgramFolder,
  wrapper: number,
  deadlines: Pick<Deadlines, "after">,
): Promise<number> {
  for (let waitedMs = 0, pauseMs = 1; waitedMs < maxStartMs; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    const inner = bubblewrapChild(statusFile(folder), wrapper) ?? 0;
    if (inner > 0 && hasEnteredRoot(inner)) return inner;
    const stat = readStat(wrapper);
    if (inner < 0 || stat === undefined || hasEnded(stat)) break;
    await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
    waitedMs += pauseMs;
  }
  throw new ExecutionError("NotRunning", `program ${folder.id} is not running`);
}
