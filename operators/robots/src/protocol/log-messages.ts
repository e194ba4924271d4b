import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { LogPosition } from "@keelson/execution";
import { taskUidPattern } from "./messages.ts";

/** Feature of an agent with a key that sends the output of tasks. */
export const logsFeature = "logs";

/** Maximum number of lines with which output begins. */
export const maxTailLines = 1_000_000;

/** An output of a program. */
export type LogStream = "stdout" | "stderr";

/** Both outputs of a program. */
export const logStreams: readonly LogStream[] = ["stdout", "stderr"];

/** What a user wants to read of the output of a task. */
export interface LogRequest {
  /** Continues until the program has exited. */
  readonly isFollowing: boolean;
  /** Begins with the last lines. Default: with the oldest line that the robot has. */
  readonly tailLines?: number;
  readonly streams: readonly LogStream[];
}

/** A request for the output of a task's program, which is sent like that of a command. */
export interface LogsStart extends LogRequest {
  readonly kind: "logs";
  /** The server's time in milliseconds. */
  readonly issuedAt: number;
  readonly taskUid: string;
  readonly attempt: number;
  /** Where earlier output ended. It has precedence over `tailLines`. */
  readonly from?: { readonly [Stream in LogStream]?: LogPosition };
  readonly timeoutMs: number;
}

const isCount = (value: unknown, max = Number.MAX_SAFE_INTEGER): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= max;

/** Parses what a user wants to read. Returns why it is not valid. */
export function readLogRequest(value: unknown): LogRequest | string {
  if (!isJsonObject(value)) return "the request must be an object";
  const { isFollowing, tailLines, streams } = value;
  if (typeof isFollowing !== "boolean") return "isFollowing: must be true or false";
  if (tailLines !== undefined && !isCount(tailLines, maxTailLines)) return `tailLines: must be between 0 and ${maxTailLines}`;
  if (!Array.isArray(streams) || streams.length === 0) return "streams: must be a list of stdout and stderr";
  const known = logStreams.filter((stream) => streams.includes(stream));
  if (known.length !== streams.length) return "streams: must be a list of stdout and stderr";
  return { isFollowing, streams: known, ...(tailLines === undefined ? {} : { tailLines }) };
}

/** Parses a position. Undefined if it is not valid. */
export function readLogPosition(value: unknown): LogPosition | undefined {
  if (!isJsonObject(value)) return undefined;
  const { after, offset, last } = value;
  if (!isCount(after) || !isCount(offset) || typeof last !== "string") return undefined;
  if (last.length > 64 || !/^[A-Za-z0-9+/]*={0,2}$/.test(last)) return undefined;
  return Buffer.from(last, "base64").length > offset ? undefined : { after, offset, last };
}

/** Parses a request for output. Undefined if it is not valid. */
export function readLogsStart(message: JsonObject): LogsStart | undefined {
  const { issuedAt, taskUid, attempt, timeoutMs } = message;
  const request = readLogRequest(message);
  if (typeof request === "string") return undefined;
  if (typeof issuedAt !== "number" || typeof taskUid !== "string" || !taskUidPattern.test(taskUid)) return undefined;
  if (!isCount(attempt, 2 ** 31) || !isCount(timeoutMs, 2 ** 31) || timeoutMs === 0) return undefined;
  const from: { [Stream in LogStream]?: LogPosition } = {};
  for (const stream of isJsonObject(message.from) ? logStreams : []) {
    const position = isJsonObject(message.from) ? readLogPosition(message.from[stream]) : undefined;
    if (position !== undefined) from[stream] = position;
  }
  return { kind: "logs", issuedAt, taskUid, attempt, timeoutMs, from, ...request };
}
