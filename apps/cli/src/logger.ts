import type { Logger } from "@keelson/controller";
import { UsageError } from "./command-line.ts";
import { destination, type LevelWithSilent, type Logger as PinoLogger, pino } from "pino";

const logLevels = ["debug", "info", "warn", "error", "silent"] as const;

/** Parses the value of `--log-level`. Throws a {@link UsageError}. */
export function parseLogLevel(value: unknown): (typeof logLevels)[number] {
  const level = logLevels.find((each) => each === value);
  if (level === undefined)
    throw new UsageError(`--log-level: invalid value ${JSON.stringify(value)}: must be one of ${logLevels.join(", ")}`);
  return level;
}

/** Creates a {@link Logger} that writes JSON lines to `file`, or to standard error by default. */
export function createLogger(options: { readonly level: LevelWithSilent; readonly file?: string }): Logger {
  const stream = options.file
    ? destination({ dest: options.file, mkdir: true, append: true, sync: false })
    : destination({ dest: 2, sync: true });
  // A log that cannot be written (a full disk) is reported once and never stops the process.
  stream.once("error", (error: Error) => {
    stream.on("error", () => {});
    if (options.file) process.stderr.write(`keelson: ${options.file} is not writable: ${error.message}\n`);
  });
  return adapt(pino({ level: options.level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` }, stream));
}

function adapt(logger: PinoLogger): Logger {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    child: (fields) => adapt(logger.child(fields)),
  };
}
