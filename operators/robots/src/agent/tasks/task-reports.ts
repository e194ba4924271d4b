import type { Exited } from "@keelson/execution";
import type { StatusMessage } from "../../protocol/messages.ts";

/** The fields of a status message that describe what happened. Robot, attempt and time are added later. */
export type ReportBody = Pick<StatusMessage, "state" | "message" | "event"> &
  Partial<
    Pick<
      StatusMessage,
      | "permanent"
      | "health"
      | "leaseExpired"
      | "restartCount"
      | "exitCode"
      | "signal"
      | "startedAt"
      | "finishedAt"
      | "logsStdout"
      | "logsStderr"
    >
  >;

/** The end of a program's output. */
export interface LogTails {
  readonly stdout: string;
  readonly stderr: string;
}

/** The logs of a program that never ran. */
export const noLogs: LogTails = { stdout: "", stderr: "" };

/** Maximum size of each log in a status message. */
export const logTailBytes = 4096;

/** Replaces control characters other than newline and tab, because a program's output must not control the reader's terminal. */
export function withoutControls(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : "\ufffd"));
}

const time = (ms: number): string => new Date(ms).toISOString();

function messageFor(exited: Exited): string {
  switch (exited.reason) {
    case "Completed":
      return "Task completed";
    case "Timeout":
      return "Task terminated: Task timeout";
    case "Stopped":
      return "Task terminated: the robot's agent was stopped";
    case "OOMKilled":
      return `Task failed: OOMKilled: ${exited.message}`;
    case "Lost":
      return `Task failed: could not determine its exit status: ${exited.message}`;
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

/** The report of a program's exit. */
export function reportOfExit(exited: Exited, logs: LogTails): ReportBody {
  return {
    state: exited.reason === "Completed" ? "completed" : "failed",
    event: events[exited.reason],
    message: withoutControls(messageFor(exited)),
    ...(exited.exitCode >= 0 && { exitCode: exited.exitCode }),
    ...(exited.signal !== undefined && { signal: exited.signal }),
    ...(exited.startedAt !== undefined && { startedAt: time(exited.startedAt) }),
    finishedAt: time(exited.finishedAt),
    ...(logs.stdout !== "" && { logsStdout: withoutControls(logs.stdout) }),
    ...(logs.stderr !== "" && { logsStderr: withoutControls(logs.stderr) }),
  };
}
