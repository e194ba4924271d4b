import { constants, openSync } from "node:fs";
import type { Logger } from "@keelson/controller";
import { destination, type LevelWithSilent, type Logger as PinoLogger, pino } from "pino";

/** Creates a {@link Logger} that writes JSON lines to `file`, or to standard error by default. */
export function createLogger(options: { readonly level: LevelWithSilent; readonly file?: string }): Logger {
  const stream = options.file
    ? destination({ dest: openLog(options.file), sync: false })
    : destination({ dest: 2, sync: true });
  // A log that cannot be written (a full disk) is reported once and never stops the process.
  stream.once("error", (error: Error) => {
    stream.on("error", () => {});
    if (options.file) process.stderr.write(`keelson: ${options.file} is not writable: ${error.message}\n`);
  });
  return adapt(pino({ level: options.level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` }, stream));
}

/** The log file is a symbolic link. Following it would let another user choose the file that is appended to. */
export class LogFileError extends Error {
  override readonly name = "LogFileError";
  readonly code = "SymbolicLink";
}

/** Opens a log file for appending, readable by its owner only. A file that cannot be opened for another reason is replaced by /dev/null. */
function openLog(path: string): number {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;
  try {
    return openSync(path, O_APPEND | O_CREAT | O_NOFOLLOW | O_WRONLY, 0o600);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ELOOP")
      throw new LogFileError(`${path} is a symbolic link, which is not followed: remove it`, { cause: error });
    process.stderr.write(`keelson: ${path} is not writable: ${error instanceof Error ? error.message : String(error)}\n`);
    return openSync("/dev/null", O_WRONLY);
  }
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
