import { constants } from "node:os";
import type { Exited } from "../driver.ts";
import type { Ending } from "../process/launcher.ts";

/** Why a supervisor ends a program. */
export type StopReason = "Stopped" | "Timeout";

/** What the supervisor knows besides how the program ended. */
export interface ExitContext {
  readonly stop?: StopReason;
  /** Whether the stop came to SIGKILL. */
  readonly killed: boolean;
  readonly killSignal: NodeJS.Signals;
  readonly timeoutMs?: number;
  readonly startedAt?: number;
  readonly finishedAt: number;
}

const largestSignal = 64;

function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `signal ${number}`;
}

/**
 * How a program ended, from what its launcher saw and what we did to it. A shell gives 128 + n for a program that signal n
 * ended, and a program that exits with such a code by itself cannot be told from it.
 */
export function decideExit(ending: Ending, context: ExitContext): Exited {
  const times = {
    finishedAt: context.finishedAt,
    ...(context.startedAt !== undefined && ending.kind !== "start-failed" && { startedAt: context.startedAt }),
  };
  const ours = context.killed ? constants.signals.SIGKILL : constants.signals[context.killSignal];
  const limit = context.timeoutMs === undefined ? "its time limit" : `its time limit of ${context.timeoutMs} ms`;
  if (ending.kind === "start-failed" && context.stop !== undefined) {
    // Our signal met what prepares the program's surroundings, before the program itself.
    const what = context.stop === "Timeout" ? `reached ${limit}` : "was stopped";
    const message = `The program ${what} before it ran: ${ending.message}`;
    return { kind: "exited", reason: context.stop, message, exitCode: 128 + ours, signal: ours, ...times };
  }
  if (ending.kind === "start-failed") {
    return { kind: "exited", reason: "StartFailed", message: ending.message, exitCode: ending.exitCode, ...times };
  }
  if (ending.kind === "lost") return { kind: "exited", reason: "Lost", message: ending.message, exitCode: -1, ...times };

  const { exitCode } = ending;
  const signal = exitCode > 128 && exitCode <= 128 + largestSignal ? exitCode - 128 : undefined;
  const how = signal === undefined ? `exited with code ${exitCode}` : `was ended by ${signalName(signal)}`;
  if (context.stop === "Timeout") {
    // What ended it is our signal, also when the program caught it and chose a code of its own.
    const message = `The program reached ${limit} and ${how}`;
    return { kind: "exited", reason: "Timeout", message, exitCode: 128 + (signal ?? ours), signal: signal ?? ours, ...times };
  }
  const ended = { kind: "exited" as const, exitCode, ...(signal !== undefined && { signal }), ...times };
  if (context.stop === "Stopped") return { ...ended, reason: "Stopped", message: `The program was stopped and ${how}` };
  if (ending.oomKilled) return { ...ended, reason: "OOMKilled", message: "The program used more memory than its limit" };
  if (exitCode === 0) return { ...ended, reason: "Completed", message: "" };
  return { ...ended, reason: "Error", message: `The program ${how}` };
}
