import { readFileSync } from "node:fs";
import { constants } from "node:os";

/** Signals whose default action is to ignore, stop or continue (signal(7)); every other one terminates. */
const nonTerminating: ReadonlySet<NodeJS.Signals> = new Set([
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
 * What a signal would do to a process with this status (the text of `/proc/<pid>/status`) outside a pid namespace: the kernel does not
 * deliver unhandled signals to process 1 of a namespace (pid_namespaces(7)).
 */
export function actionOf(status: string, signal: NodeJS.Signals): "end" | "handle" {
  const mask = (name: string): bigint => BigInt(`0x${new RegExp(`^${name}:\\s*([0-9a-f]+)$`, "m").exec(status)?.[1] ?? "0"}`);
  const bit = 1n << BigInt(constants.signals[signal] - 1);
  if (nonTerminating.has(signal) || ((mask("SigCgt") | mask("SigIgn")) & bit) !== 0n) return "handle";
  return "end";
}

/** {@link actionOf} for a process of this machine; `handle` if it does not exist. */
export function defaultAction(pid: number, signal: NodeJS.Signals): "end" | "handle" {
  try {
    return actionOf(readFileSync(`/proc/${pid}/status`, "latin1"), signal);
  } catch {
    return "handle";
  }
}
