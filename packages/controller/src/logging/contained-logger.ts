import type { Logger } from "./logger.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * A logger that never throws: a lost line (a field that cannot be serialized, a full disk) must not cost a reconcile, a watch or a
 * lease.
 */
export class ContainedLogger implements Logger {
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  debug(fields: Fields, message: string): void {
    this.#write("debug", fields, message);
  }

  info(fields: Fields, message: string): void {
    this.#write("info", fields, message);
  }

  warn(fields: Fields, message: string): void {
    this.#write("warn", fields, message);
  }

  error(fields: Fields, message: string): void {
    this.#write("error", fields, message);
  }

  child(fields: Fields): Logger {
    try {
      return new ContainedLogger(this.#log.child(fields));
    } catch {
      return this;
    }
  }

  #write(level: "debug" | "info" | "warn" | "error", fields: Fields, message: string): void {
    try {
      this.#log[level](fields, message);
    } catch {
      // There is nowhere to report it.
    }
  }
}
