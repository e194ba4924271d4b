import { readFileSync } from "node:fs";
import { constants } from "node:os";

/** Signals that do nothing, or stop a process, where nobody handles them (signal(7)); every other one ends it. */
const harmless: ReadonlySet<NodeJS.Signals> = new Set([
  "SIGCHLD",
  "SIGURG",
  "SIGWINCH",
  "SIGCONT",
  "SIGSTOP",
  "SIGTSTP",
  "SIGTTIN",
  "SIGTTOU",
]);

/**
 * What a signal would do to a process with this status (the text of `/proc/<pid>/status`) if it were a process like any other:
 * the kernel gives process 1 of a namespace no signal that it does not handle (pid_namespaces(7)).
 */
export function actionOf(status: string, signal: NodeJS.Signals): "end" | "handle" {
  const mask = (name: string): bigint => BigInt(`0x${new RegExp(`^${name}:\\s*([0-9a-f]+)$`, "m").exec(status)?.[1] ?? "0"}`);
  const bit = 1n << BigInt(constants.signals[signal] - 1);
  if (harmless.has(signal) || ((mask("SigCgt") | mask("SigIgn")) & bit) !== 0n) return "handle";
  return "end";
}

/** {@link actionOf} of a process of this machine; `handle` for one that is gone. */
export function defaultAction(pid: number, signal: NodeJS.Signals): "end" | "handle" {
  try {
    return actionOf(readFileSync(`/proc/${pid}/status`, "latin1"), signal);
  } catch {
    return "handle";
  }
}
