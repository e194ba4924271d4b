import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { KeyedRates } from "./keyed-rates.ts";

/** Warnings per robot, and of all clients that are not authenticated: ten, then six per minute. */
const warningLimit = { burst: 10, perSecond: 0.1 };

/** Logs what untrusted clients do, so that they cannot flood the log. */
export class LimitedLog {
  readonly #log: Logger;
  readonly #rates: KeyedRates;

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#rates = new KeyedRates(clock, warningLimit);
  }

  /** Logs a warning about an authenticated robot, or, with undefined, about any other client; beyond the limit at level debug. */
  warn(robotId: string | undefined, fields: Readonly<Record<string, unknown>>, message: string): void {
    if (this.#rates.accept(robotId ?? "")) this.#log.warn(fields, message);
    else this.#log.debug(fields, message);
  }
}

/** Quotes and shortens untrusted text for the log. */
export function quote(text: string | undefined): string {
  return JSON.stringify(text ?? "").slice(0, 120);
}
