import type { Exited } from "@keelson/execution";
import type { StatusMessage } from "../protocol/messages.ts";

/** The parts of a status that say what happened; who, which attempt and when are added where it is made. */
export type ReportBody = Pick<StatusMessage, "state" | "message" | "event"> &
  Partial<Pick<StatusMessage, "exitCode" | "signal" | "startedAt" | "finishedAt" | "logsStdout" | "logsStderr">>;

/** The last output of a program. */
export interface LogTails {
  readonly stdout: string;
  readonly stderr: string;
}

/** Most bytes of each log in a status. */
export const logTailBytes = 4096;

/**
 * Makes output safe to show: every control character but line ends and tabs, by which a terminal could be steered, is
 * replaced. What programs print is theirs; what a status carries is shown to people.
 */
export function withoutControls(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : "\ufffd"));
}

const time = (ms: number): string => new Date(ms).toISOString();

function sentence(exited: Exited): string {
  switch (exited.reason) {
    case "Completed":
      return "Task completed";
    case "Timeout":
      return "Task terminated: Task timeout";
    case "Stopped":
      return "Task terminated: the agent of its robot was stopped";
    case "OOMKilled":
      return `Task failed: OOMKilled: ${exited.message}`;
    case "Lost":
      return `Task failed: how it ended is not known: ${exited.message}`;
    default:
      return `Task failed: ${exited.message}`;
  }
}

const events: Readonly<Record<Exited["reason"], StatusMessage["event"]>> = {
  Completed: "Completed",
  StartFailed: "StartFailed",
  Timeout: "Timeout",
  Error: "Failed",
  Stopped: "Failed",
  OOMKilled: "Failed",
  Lost: "Failed",
};

/** What a program's end means for its task. */
export function reportOfExit(exited: Exited, logs: LogTails): ReportBody {
  return {
    state: exited.reason === "Completed" ? "completed" : "failed",
    event: events[exited.reason],
    message: withoutControls(sentence(exited)),
    ...(exited.exitCode >= 0 && { exitCode: exited.exitCode }),
    ...(exited.signal !== undefined && { signal: exited.signal }),
    ...(exited.startedAt !== undefined && { startedAt: time(exited.startedAt) }),
    finishedAt: time(exited.finishedAt),
    ...(logs.stdout !== "" && { logsStdout: withoutControls(logs.stdout) }),
    ...(logs.stderr !== "" && { logsStderr: withoutControls(logs.stderr) }),
  };
}
