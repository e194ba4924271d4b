import { type Clock, systemClock } from "@keelson/api-machinery/time";
import { constants } from "node:os";
import type { Logger } from "../logging/logger.ts";

/** Options of {@link listenForShutdown}. */
export interface ShutdownOptions {
  /**
   * Makes an error that nobody handled (an uncaught exception, an unhandled rejection) ask for a stop, as a signal does: it is logged
   * here, and the process ends with 1 after `graceMs` (default 40000, somewhat more than a manager takes) where it still runs. Default:
   * Node.js ends the process at once.
   */
  readonly faults?: { readonly log: Logger; readonly graceMs?: number; readonly clock?: Clock };
}

/** What asks a process to end. */
export interface Shutdown {
  /** Fires at the first SIGINT, SIGTERM or fault. */
  readonly signal: AbortSignal;
  /** The error that nobody handled, where it was one that fired the signal. */
  readonly fault: { readonly error: unknown } | undefined;
  /** Leaves signals and errors to Node.js again. */
  dispose(): void;
}

/**
 * Listens for what asks this process to end: the first SIGINT or SIGTERM asks for a clean stop, the second ends the process at once
 * with 128 and its number. For a program's main alone: these handlers are the whole process's.
 */
export function listenForShutdown({ faults }: ShutdownOptions = {}): Shutdown {
  const controller = new AbortController();
  let fault: Shutdown["fault"];
  let deadline: { cancel(): void } | undefined;
  const onSignal = (name: "SIGINT" | "SIGTERM"): void => {
    if (controller.signal.aborted) process.exit(128 + constants.signals[name]);
    controller.abort(new Error(`got ${name}`));
  };
  // Unhandled rejections come here too, as Node.js makes exceptions of them.
  const onFault = (error: unknown): void => {
    faults?.log.error({ err: error }, "an error that nobody handled; stopping");
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

/** Resolves when the signal fires; at once when it has. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
