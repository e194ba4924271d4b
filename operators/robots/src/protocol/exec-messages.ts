import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { LogPosition, TerminalSize } from "@keelson/execution";
import { type LogsStart, readLogPosition, readLogsStart } from "./log-messages.ts";
import { taskUidPattern } from "./messages.ts";

/** Feature of an agent with a key that runs commands alongside the programs of tasks. */
export const execFeature = "exec";

/** Maximum data of one message. */
export const maxExecDataBytes = 64 * 1024;

/** Data that the sender of a stream may send before the receiver has credited it. */
export const execWindowBytes = 256 * 1024;

/** The receiver of a stream credits data when this much of it was processed. */
export const execCreditBytes = 64 * 1024;

/** Pause between two signs of life of the server. */
export const execPingMs = 10_000;

/** An agent ends a command whose caller has not reported for this time. */
export const execSilenceMs = 30_000;

/** Maximum run time of a command. */
export const maxExecTimeoutMs = 86_400_000;

/** Maximum size of a command with its arguments. */
const maxExecCommandBytes = 32 * 1024;

/** A command to run alongside a task's program. */
export interface ExecStart {
  readonly kind: "start";
  /** The server's time in milliseconds. An agent rejects commands that were issued before it started. */
  readonly issuedAt: number;
  readonly taskUid: string;
  readonly attempt: number;
  readonly command: readonly [string, ...string[]];
  /** Runs the command on a terminal of this size. */
  readonly terminal?: TerminalSize;
  readonly timeoutMs: number;
}

/**
 * Added. Server to agent, on `k8s4r/robots/{id}/exec` (QoS 1), to robots with a key. `id` identifies the command, or the request for output; `seq` counts
 * the messages about it, from 0. A repeated message is ignored; a missing one ends the command.
 */
export type ExecMessage = { readonly id: string; readonly seq: number } & (
  | ExecStart
  | LogsStart
  /** Input of the command, in base64. */
  | { readonly kind: "input"; readonly data: string }
  | { readonly kind: "end-input" }
  | ({ readonly kind: "resize" } & TerminalSize)
  /** This much of the output was processed. */
  | { readonly kind: "credit"; readonly bytes: number }
  /** The caller is still there. */
  | { readonly kind: "ping" }
  /** The caller has gone: ends the command. */
  | { readonly kind: "close" }
);

/** Added. Agent to server, on `k8s4r/robots/{id}/exec/output` (QoS 1). `exited` and `failed` are the last about a command. */
export type ExecReport = { readonly id: string; readonly seq: number } /** Output of the command, in base64. */ & (
  | {
      readonly kind: "output";
      readonly stream: "stdout" | "stderr";
      readonly data: string;
      /** Of the output of a program: the position after the data. */
      readonly position?: LogPosition;
    }
  /** This much of the input was processed. */
  | { readonly kind: "credit"; readonly bytes: number }
  | { readonly kind: "exited"; readonly exitCode: number }
  | { readonly kind: "failed"; readonly message: string }
);

const isCount = (value: unknown, max = 2 ** 31): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value < max;

const isSize = (value: unknown): value is number => isCount(value, 65_536) && value > 0;

/** Whether a value is data of a message: base64 of at most {@link maxExecDataBytes}. */
const isData = (value: unknown): value is string =>
  typeof value === "string" && value.length <= Math.ceil(maxExecDataBytes / 3) * 4 && /^[A-Za-z0-9+/]*={0,2}$/.test(value);

function headOf({ id, seq }: JsonObject): { readonly id: string; readonly seq: number } | undefined {
  return typeof id === "string" && taskUidPattern.test(id) && isCount(seq) ? { id, seq } : undefined;
}

/** Why a command cannot be run; undefined if it can. The message begins with the field. */
export function commandProblem(command: readonly string[]): string | undefined {
  if (command.length === 0 || command[0] === "") return "command: must name a program";
  if (command.some((word) => word.includes("\0"))) return "command: must not contain NUL characters";
  const bytes = command.reduce((sum, word) => sum + Buffer.byteLength(word) + 1, 0);
  return bytes > maxExecCommandBytes ? `command: is ${bytes} bytes; must be at most ${maxExecCommandBytes} bytes` : undefined;
}

/** Parses a size of a terminal. Undefined if it is not valid. */
export function readTerminal(value: unknown): TerminalSize | undefined {
  if (!isJsonObject(value)) return undefined;
  const { columns, rows } = value;
  return isSize(columns) && isSize(rows) ? { columns, rows } : undefined;
}

/** Parses a command and its arguments. Undefined if it is not valid. */
export function readCommand(value: unknown): readonly [string, ...string[]] | undefined {
  if (!Array.isArray(value) || !value.every((word) => typeof word === "string")) return undefined;
  const [program, ...rest] = value;
  return program === undefined || commandProblem(value) !== undefined ? undefined : [program, ...rest];
}

function readStart(message: JsonObject): ExecStart | undefined {
  const { issuedAt, taskUid, attempt, timeoutMs } = message;
  const command = readCommand(message.command);
  const terminal = message.terminal === undefined ? undefined : readTerminal(message.terminal);
  if (command === undefined || (message.terminal !== undefined && terminal === undefined)) return undefined;
  if (typeof issuedAt !== "number" || typeof taskUid !== "string" || !taskUidPattern.test(taskUid)) return undefined;
  if (!isCount(attempt) || !isCount(timeoutMs) || timeoutMs === 0 || timeoutMs > maxExecTimeoutMs) return undefined;
  return { kind: "start", issuedAt, taskUid, attempt, command, timeoutMs, ...(terminal === undefined ? {} : { terminal }) };
}

/** Parses a message to an agent. Undefined if it is not valid. */
export function readExecMessage(message: JsonObject): ExecMessage | undefined {
  const head = headOf(message);
  if (head === undefined) return undefined;
  const { kind, data, bytes } = message;
  switch (kind) {
    case "start": {
      const start = readStart(message);
      return start === undefined ? undefined : { ...head, ...start };
    }
    case "logs": {
      const start = readLogsStart(message);
      return start === undefined ? undefined : { ...head, ...start };
    }
    case "input":
      return isData(data) ? { ...head, kind, data } : undefined;
    case "resize": {
      const size = readTerminal(message);
      return size === undefined ? undefined : { ...head, kind, ...size };
    }
    case "credit":
      return isCount(bytes) ? { ...head, kind, bytes } : undefined;
    case "end-input":
    case "ping":
    case "close":
      return { ...head, kind };
    default:
      return undefined;
  }
}

/** Parses an untrusted report of an agent. Returns why it is not valid. */
export function readExecReport(report: JsonObject): ExecReport | string {
  const head = headOf(report);
  if (head === undefined) return "id and seq must identify a message about a command";
  const { kind, data, stream, bytes, exitCode, message } = report;
  switch (kind) {
    case "output": {
      if (stream !== "stdout" && stream !== "stderr") return "stream must be stdout or stderr";
      if (!isData(data)) return `data must be base64 of at most ${maxExecDataBytes} bytes`;
      const position = readLogPosition(report.position);
      return { ...head, kind, stream, data, ...(position === undefined ? {} : { position }) };
    }
    case "credit":
      return isCount(bytes) ? { ...head, kind, bytes } : "bytes must be a whole number";
    case "exited":
      return isCount(exitCode, 256) ? { ...head, kind, exitCode } : "exitCode must be between 0 and 255";
    case "failed":
      return typeof message === "string" ? { ...head, kind, message: message.slice(0, 500) } : "message must be a string";
    default:
      return "kind must be output, credit, exited or failed";
  }
}
