import type { Logger } from "@keelson/controller";
import { destination, type LevelWithSilent, type Logger as PinoLogger, pino } from "pino";

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
