import { type Logger, silentLogger } from "../logging/logger.ts";
import type { Manager } from "./manager.ts";
import { aborted, listenForShutdown } from "./shutdown.ts";

/** Options of {@link runManager}. */
export interface RunManagerOptions {
  /** Where an error that nobody handled is told of when it happens. Default: nowhere; {@link runManager} rejects with it at the end. */
  readonly logger?: Logger;
  /** Runs when the manager has started: its caches are synced. */
  readonly onStarted?: () => void | Promise<void>;
  /** How long the stop after an error that nobody handled may take, until the process is ended with 1. Default 40000. */
  readonly faultGraceMs?: number;
}

/**
 * Runs a manager until it is to end, and stops it: what a program's main waits for. SIGINT or SIGTERM stops it cleanly, also while it
 * starts; a second one ends the process at once with 130 or 143. Uncaught exceptions and unhandled rejections stop it too.
 *
 * A manager by itself leaves signals and errors to its process, as it may be one of several or in a test; this is the one call that
 * does not, while it runs. Whoever awaits it at the top of a program ends with 0 after a signal and with 1 after everything else.
 *
 * **Errors**: rejects, when all has stopped, with the error that nobody handled, with what the manager failed with (its caches did
 * not sync, its lease was lost), or with what `onStarted` threw.
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
  } finally {
    await manager.stop();
    shutdown.dispose();
  }
  if (shutdown.fault !== undefined) throw shutdown.fault.error;
}
