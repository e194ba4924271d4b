import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Logger } from "./logger.ts";

/** How much a {@link createJsonLogger} writes: lines of this level and the ones after it. */
export type LogLevel = "debug" | "info" | "warn" | "error";

const levels: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** Options of {@link createJsonLogger}. */
export interface JsonLoggerOptions {
  /** The lowest level that is written. Default: `info`. */
  readonly level?: LogLevel;
  /** Takes a line with its end. Default: standard error. */
  readonly write?: (line: string) => void;
  /** Default: the machine's. */
  readonly clock?: Clock;
}

/**
 * A logger that writes a line of JSON each: `time` (RFC 3339 in milliseconds), `level`, the fields, `message`. An Error among the
 * fields is written with its name, message, stack, code and cause. For programs that have no logger of their own; pino's fits as it is.
 */
export function createJsonLogger(options: JsonLoggerOptions = {}): Logger {
  const { level = "info", write = (line) => process.stderr.write(line), clock = systemClock } = options;
  const lowest = levels.indexOf(level);
  const withFields = (base: Readonly<Record<string, unknown>>): Logger => {
    const logAt = (at: LogLevel) => (fields: Readonly<Record<string, unknown>>, message: string) => {
      if (levels.indexOf(at) < lowest) return;
      const time = new Date(clock.now()).toISOString();
      write(`${textOf({ time, level: at, ...base, ...fields, message })}\n`);
    };
    return {
      debug: logAt("debug"),
      info: logAt("info"),
      warn: logAt("warn"),
      error: logAt("error"),
      child: (fields) => withFields({ ...base, ...fields }),
    };
  };
  return withFields({});
}

function textOf(line: Readonly<Record<string, unknown>>): string {
  try {
    return JSON.stringify(line, plain);
  } catch (error) {
    // A log line must not fail what it tells about: cycles and the like cost the fields, not the message.
    return JSON.stringify({ time: line["time"], level: line["level"], message: line["message"], fields: String(error) });
  }
}

function plain(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (!(value instanceof Error)) return value;
  const { name, message, stack, cause } = value;
  const code: unknown = Reflect.get(value, "code");
  return { name, message, stack, ...(code === undefined ? {} : { code }), ...(cause === undefined ? {} : { cause }) };
}
