import { isStatusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { isTransportError } from "@keelson/client";
import { ExponentialBackoff } from "../queue/exponential-backoff.ts";

/**
 * Delays between the attempts of an informer. A server that answers with an error is left alone for 800 ms to 30 s, as in client-go. A
 * server that cannot be reached is tried again within 2 s at the latest, so that its return is noticed soon: a refused
 * connection costs it nothing. Both delays double, with jitter. A server that asks for more time gets it.
 */
export class InformerBackoff {
  readonly #errors: ExponentialBackoff;
  readonly #reconnects: ExponentialBackoff;

  constructor(clock: Clock, random: () => number) {
    this.#errors = new ExponentialBackoff({ clock, random, baseMs: 800, maxMs: 30_000, resetAfterMs: 120_000, jitter: 1 });
    this.#reconnects = new ExponentialBackoff({ clock, random, baseMs: 100, maxMs: 1_000, resetAfterMs: 2_000, jitter: 1 });
  }

  /** The delay after `error`; `undefined` stands for a watch that the server ended immediately. */
  next(error: unknown): number {
    const delayMs = (isOutage(error) ? this.#reconnects : this.#errors).next();
    const requestedMs = isStatusError(error) ? (error.status.details?.retryAfterSeconds ?? 0) * 1000 : 0;
    return Math.max(delayMs, requestedMs);
  }
}

/** Whether the server is away, or a proxy answers for it. Invalid certificates and credentials are not outages. */
function isOutage(error: unknown): boolean {
  if (isStatusError(error)) return error.code >= 502 && error.code <= 504;
  return (
    isTransportError(error, "Unreachable") || isTransportError(error, "ConnectionLost") || isTransportError(error, "Timeout")
  );
}
