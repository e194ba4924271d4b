import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Logger } from "./logger.ts";

/** Levels of {@link createJsonLogger}, in ascending order. */
export type LogLevel = "debug" | "info" | "warn" | "error";

const levels: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** Options of {@link createJsonLogger}. */
export interface JsonLoggerOptions {
  /** Minimum level. Default: `info`. */
  readonly level?: LogLevel;
  /** Writes a line, including its newline. Default: to standard error. */
  readonly write?: (line: string) => void;
  /** Default: the system clock. */
  readonly clock?: Clock;
}

/**
 * Creates a logger that writes lines of JSON: `time` (RFC 3339 with milliseconds), `level`, the fields, `message`. Errors among the
 * fields are written with name, message, stack, code and cause. Use it if your program has no logger; a pino logger can be used directly.
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
    // Fields that cannot be serialized, such as cycles, are dropped; the message is not.
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
