import { constants } from "node:os";
import type { Exited, ProgramSpec } from "../driver.ts";
import { neverRanMessage, type Termination } from "../process/launcher.ts";

/** Why a supervisor stops a program. */
export type StopReason = "Stopped" | "Timeout";

/** What the supervisor knows in addition to the launcher's report. */
export interface ExitContext {
  readonly stop?: StopReason;
  /** Whether the stop needed SIGKILL. */
  readonly killed: boolean;
  readonly killSignal: NodeJS.Signals;
  readonly timeoutMs?: number;
  readonly startedAt?: number;
  readonly finishedAt: number;
}

/** What a supervisor did to a program and knows about it. */
export interface ProgramHistory {
  readonly spec: ProgramSpec;
  readonly stop: StopReason | undefined;
  /** Whether the stop needed SIGKILL. */
  readonly isKilled: boolean;
  /** Undefined if it never ran. */
  readonly startedAt: number | undefined;
  /** Whether an earlier supervisor started it. */
  readonly isAdopted: boolean;
}

/** The context of a termination that was seen at `now`. An adopted program may have terminated while there was no supervisor. */
export function exitContext(termination: Termination, history: ProgramHistory, now: number): ExitContext {
  const { spec, stop, isKilled, startedAt, isAdopted } = history;
  const endedAt = isAdopted && termination.kind === "exited" ? termination.endedAt : undefined;
  return {
    ...(stop !== undefined && { stop }),
    killed: isKilled,
    killSignal: spec.killSignal ?? "SIGTERM",
    ...(spec.timeoutMs !== undefined && { timeoutMs: spec.timeoutMs }),
    ...(startedAt !== undefined && { startedAt }),
    finishedAt: Math.min(now, endedAt ?? now),
  };
}

const maxSignalNumber = 64;

function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `signal ${number}`;
}

/** Whether a program certainly never ran, because its supervisor was killed while it started the program. It may be started again. */
export const hasNeverRun = ({ reason, message }: Exited): boolean => reason === "Lost" && message === neverRanMessage;

/**
 * Decides a program's exit status from its launcher's report and our own actions. Where a launcher cannot tell, an exit code of 128 + n
 * counts as signal n.
 */
export function decideExit(ending: Termination, context: ExitContext): Exited {
  const times = {
    finishedAt: context.finishedAt,
    ...(context.startedAt !== undefined && ending.kind !== "start-failed" && { startedAt: context.startedAt }),
  };
  const ours = context.killed ? constants.signals.SIGKILL : constants.signals[context.killSignal];
  const limit = context.timeoutMs === undefined ? "its time limit" : `its time limit of ${context.timeoutMs} ms`;
  if (ending.kind === "start-failed" && context.stop !== undefined) {
    // Our signal arrived while the program's environment was being prepared.
    const what = context.stop === "Timeout" ? `reached ${limit}` : "was stopped";
    const message = `program ${what} before it ran: ${ending.message}`;
    return { kind: "exited", reason: context.stop, message, exitCode: 128 + ours, signal: ours, ...times };
  }
  if (ending.kind === "start-failed") {
    return { kind: "exited", reason: "StartFailed", message: ending.message, exitCode: ending.exitCode, ...times };
  }
  if (ending.kind === "lost") return { kind: "exited", reason: "Lost", message: ending.message, exitCode: -1, ...times };

  const { exitCode, isSignalled = true } = ending;
  const signal = isSignalled && exitCode > 128 && exitCode <= 128 + maxSignalNumber ? exitCode - 128 : undefined;
  const how = signal === undefined ? `exited with code ${exitCode}` : `was killed by ${signalName(signal)}`;
  if (context.stop === "Timeout") {
    // Our signal is the cause, even if the program caught it and chose its own exit code.
    const message = `program reached ${limit} and ${how}`;
    return { kind: "exited", reason: "Timeout", message, exitCode: 128 + (signal ?? ours), signal: signal ?? ours, ...times };
  }
  const ended = { kind: "exited" as const, exitCode, ...(signal !== undefined && { signal }), ...times };
  if (context.stop === "Stopped") return { ...ended, reason: "Stopped", message: `program was stopped and ${how}` };
  if (ending.oomKilled) return { ...ended, reason: "OOMKilled", message: "program exceeded its memory limit" };
  if (exitCode === 0) return { ...ended, reason: "Completed", message: "" };
  return { ...ended, reason: "Error", message: `program ${how}` };
}
