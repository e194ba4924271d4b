import { watch } from "node:fs";
import { createDeferred } from "@keelson/api-machinery/deferred";
import type { Program } from "@keelson/execution";

/** One wait for a change of a log. */
export interface LogWaiter {
  /** Resolves when the log may have grown, its program has exited, or the reader has gone. */
  readonly changed: Promise<void>;
  close(): void;
}

/**
 * Reports changes of a program's log to one reader that follows it. The program and the signal are subscribed to once: a log that grows
 * often must not leave a subscription of each wait behind.
 */
export class LogChanges {
  readonly #path: string;
  readonly #forget: () => void;
  readonly #signal: AbortSignal | undefined;
  #notify: (() => void) | undefined;
  #isOver = false;
  readonly #end = (): void => {
    this.#isOver = true;
    this.#notify?.();
  };

  constructor(path: string, program: Pick<Program, "onExit">, signal: AbortSignal | undefined) {
    this.#path = path;
    this.#signal = signal;
    this.#forget = program.onExit(this.#end);
    if (signal?.aborted === true) this.#end();
    signal?.addEventListener("abort", this.#end, { once: true });
  }

  /** Listens from now on. Changes are reported once, so that a flood of writes wakes the reader once per read. */
  listen(): LogWaiter {
    const { promise, resolve } = createDeferred<void>();
    this.#notify = resolve;
    let watcher: ReturnType<typeof watch> | undefined;
    try {
      watcher = watch(this.#path, { persistent: false }, () => resolve());
      watcher.on("error", () => resolve());
    } catch {
      resolve();
    }
    if (this.#isOver) resolve();
    return {
      changed: promise,
      close: () => {
        watcher?.close();
        this.#notify = undefined;
      },
    };
  }

  [Symbol.dispose](): void {
    this.#forget();
    this.#signal?.removeEventListener("abort", this.#end);
    this.#notify = undefined;
  }
}
