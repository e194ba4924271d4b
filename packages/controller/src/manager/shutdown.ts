import { type Clock, systemClock } from "@keelson/api-machinery/time";
import { constants } from "node:os";
import type { Logger } from "../logging/logger.ts";

/** Options of {@link listenForShutdown}. */
export interface ShutdownOptions {
  /**
   * Turns an uncaught exception or unhandled rejection into a request to stop, like a signal. It is logged, and the process exits with 1
   * if it is still running after `graceMs` (default 40000, slightly more than a manager needs). Default: Node.js exits immediately.
   */
  readonly faults?: { readonly log: Logger; readonly graceMs?: number; readonly clock?: Clock };
}

/** Requests to stop this process. */
export interface Shutdown {
  /** Aborted by the first SIGINT, SIGTERM or unhandled error. */
  readonly signal: AbortSignal;
  /** The unhandled error, if it aborted the signal. */
  readonly fault: { readonly error: unknown } | undefined;
  /** Restores the default handling of signals and errors. */
  dispose(): void;
}

/**
 * Listens for requests to stop this process. The first SIGINT or SIGTERM requests a graceful stop, the second exits immediately with 128
 * plus its number. Call it in a program's main only: the handlers are global to the process.
 */
export function listenForShutdown({ faults }: ShutdownOptions = {}): Shutdown {
  const controller = new AbortController();
  let fault: Shutdown["fault"];
  let deadline: { cancel(): void } | undefined;
  const onSignal = (name: "SIGINT" | "SIGTERM"): void => {
    if (controller.signal.aborted) process.exit(128 + constants.signals[name]);
    controller.abort(new Error(`received ${name}`));
  };
  // Unhandled rejections come here too, as Node.js makes exceptions of them.
  const onFault = (error: unknown): void => {
    faults?.log.error({ err: error }, "unhandled error; stopping");
    if (controller.signal.aborted) return;
    fault = { error };
    const { graceMs = 40_000, clock = systemClock } = faults ?? {};
    deadline = clock.setTimer(graceMs, () => process.exit(1), { background: true });
    controller.abort(error);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  if (faults !== undefined) process.on("uncaughtException", onFault);
  return {
    signal: controller.signal,
    get fault() {
      return fault;
    },
    dispose() {
      deadline?.cancel();
      process.off("SIGINT", onSignal);
      process.off("SIGTERM", onSignal);
      process.off("uncaughtException", onFault);
    },
  };
}

/** Resolves when the signal is aborted; immediately if it already is. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
