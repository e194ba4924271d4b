import { type FSWatcher, watch } from "node:fs";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";

/** A watch of a directory. */
interface FolderWatcher {
  on(event: "error", listener: (error: Error) => void): unknown;
  close(): void;
}

/** Options of {@link FolderWatch}. */
export interface FolderWatchOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Default: `watch` of node:fs. */
  readonly watchFolder?: (folder: string, onChange: () => void) => FolderWatcher;
}

const [firstRetryMs, maxRetryMs] = [1_000, 60_000];

const watchWithNode = (folder: string, onChange: () => void): FSWatcher => watch(folder, { persistent: false }, onChange);

/**
 * Calls `onChange` when a directory may have changed. A watch that fails, for example because the machine has too many, is reported and repeated
 * with exponential backoff up to a minute. `onChange` is called after every attempt, because changes may have been missed.
 */
export class FolderWatch {
  readonly #folder: string;
  readonly #onChange: () => void;
  readonly #options: FolderWatchOptions;
  #watcher: FolderWatcher | undefined;
  #retry: Timer | undefined;
  #failures = 0;
  #isClosed = false;

  constructor(folder: string, onChange: () => void, options: FolderWatchOptions) {
    this.#folder = folder;
    this.#onChange = onChange;
    this.#options = options;
    this.#start();
  }

  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
    this.#watcher?.close();
  }

  #start(): void {
    const { watchFolder = watchWithNode } = this.#options;
    try {
      const watcher = watchFolder(this.#folder, () => {
        this.#failures = 0;
        this.#onChange();
      });
      watcher.on("error", (error) => this.#watcher === watcher && this.#fail(error));
      this.#watcher = watcher;
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    const { clock, log } = this.#options;
    this.#watcher?.close();
    this.#watcher = undefined;
    if (this.#isClosed) return;
    const retryMs = Math.min(firstRetryMs * 2 ** this.#failures, maxRetryMs);
    this.#failures += 1;
    log.warn({ err: error, folder: this.#folder, retryMs }, "could not watch the directory for new certificates; retrying");
    const retry = (): void => {
      this.#start();
      this.#onChange();
    };
    this.#retry = clock.setTimer(retryMs, retry, { background: true });
  }
}
