import { Worker } from "node:worker_threads";
import { watchMainThread } from "./watch-main-thread.ts";

/** An event loop that did not turn for a while. */
export interface EventLoopStall {
  /** How long the loop had been blocked when it was noticed, in milliseconds. */
  readonly blockedMs: number;
  /** The blocking call stack, innermost function first: `function (file:line)`. Empty if it could not be read. */
  readonly stack: readonly string[];
}

/** Options of {@link startEventLoopWatchdog}. */
export interface EventLoopWatchdogOptions {
  /** The shortest stall to report, in milliseconds. Default: 1000. */
  readonly thresholdMs?: number;
  /** A prefix of the line on standard error, for example the name of the process. Default: `keelson`. */
  readonly name?: string;
  /** Called once the loop turns again. A stall that never ends is reported on standard error only. */
  readonly onStall?: (stall: EventLoopStall) => void;
}

/** A running watchdog. */
export interface EventLoopWatchdog extends AsyncDisposable {
  stop(): Promise<void>;
}

/**
 * Watches this thread's event loop from another thread. While the loop is blocked for longer than the threshold, by synchronous code or
 * by promises that never let I/O run, one line on standard error names the functions that block it; it is repeated every 10 s.
 */
export function startEventLoopWatchdog(options: EventLoopWatchdogOptions = {}): EventLoopWatchdog {
  const { thresholdMs = 1_000, name = "keelson", onStall } = options;
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const timer = setInterval(() => void Atomics.add(beats, 0, 1), thresholdMs / 4);
  timer.unref();
  // The source is passed as text, so that it runs alike from src and dist.
  const worker = new Worker(`(${watchMainThread.toString()})()`, {
    eval: true,
    workerData: { beats, thresholdMs, name },
    stderr: false,
  });
  worker.unref();
  worker.on("message", (stall: EventLoopStall) => onStall?.(stall));
  // Without its watchdog the process works as well as before.
  worker.on("error", () => clearInterval(timer));
  const stop = async (): Promise<void> => {
    clearInterval(timer);
    await worker.terminate();
  };
  return { stop, [Symbol.asyncDispose]: stop };
}
