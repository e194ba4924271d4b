import { constants } from "node:os";

/** The process whose output may be closed. */
interface OutputProcess {
  readonly stdout: NodeJS.EventEmitter;
  /** Number of handlers of `uncaughtException`: a program that has one stops gracefully. */
  listenerCount(event: "uncaughtException"): number;
  exit(code: number): void;
}

/** Ends the process without a message when the reader of its output has gone, as SIGPIPE ends other programs: `keelson status | head -1`. */
export function exitOnClosedOutput(process: OutputProcess): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" || process.listenerCount("uncaughtException") > 0) throw error;
    process.exit(128 + constants.signals.SIGPIPE);
  });
}
