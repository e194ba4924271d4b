import { type Logger, silentLogger } from "../logging/logger.ts";
import type { Manager } from "./manager.ts";
import { aborted, listenForShutdown } from "./shutdown.ts";

/** Options of {@link runManager}. */
export interface RunManagerOptions {
  /** Logs an unhandled error when it occurs. {@link runManager} also rejects with it at the end. Default: none. */
  readonly logger?: Logger;
  /** Runs when the manager has started and its caches are synced. */
  readonly onStarted?: () => void | Promise<void>;
  /** Maximum duration of the stop after an unhandled error; then the process exits with 1. Default 40000. */
  readonly faultGraceMs?: number;
}

/**
 * Runs a manager until the process is asked to stop: a program's main awaits it. SIGINT or SIGTERM stops the manager gracefully, also
 * during its start; a second signal exits immediately with 130 or 143. Uncaught exceptions and unhandled rejections stop it too.
 *
 * A manager by itself does not handle signals and unhandled errors, because it may be one of several, or part of a test. A program that
 * awaits this function at its top level exits with 0 after a signal and with 1 otherwise.
 *
 * **Errors**: rejects, after everything has stopped, with the unhandled error, with the failure of the manager (its caches did
 * not sync, its lease was lost), or with the error of `onStarted`.
 */
export async function runManager(
  manager: Pick<Manager, "start" | "stop" | "done">,
  { logger: log = silentLogger, onStarted, faultGraceMs }: RunManagerOptions = {},
): Promise<void> {
  const graceMs = faultGraceMs === undefined ? {} : { graceMs: faultGraceMs };
  const shutdown = listenForShutdown({ faults: { log, ...graceMs } });
  try {
    await manager.start(shutdown.signal);
    await onStarted?.();
    await Promise.race([manager.done, aborted(shutdown.signal)]);
  } catch (error) {
    if (!shutdown.signal.aborted) throw error;
    // The signal cancelled the start, or came first: the program exits as after any signal, but the error is not lost.
    if (error !== shutdown.signal.reason) log.error({ err: error }, "failed while stopping");
  } finally {
    await manager.stop();
    shutdown.dispose();
  }
  if (shutdown.fault !== undefined) throw shutdown.fault.error;
}
