import { createDeferred } from "@keelson/api-machinery/deferred";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Intent } from "./intent-log.ts";

const maxWaitMs = 30_000;

/** A sandbox whose object is not written yet. */
export class PendingCreate {
  /** Comes from an earlier process, and does not run or has lost its name. If its object exists, the controller takes it; otherwise it is undone. */
  isLost = false;
  #intent: Intent;
  readonly #finished = createDeferred<void>();

  constructor(intent: Intent) {
    this.#intent = intent;
  }

  get intent(): Intent {
    return this.#intent;
  }

  /** Whether the sandbox was deleted, so that it must be undone. */
  get isDeleted(): boolean {
    return this.#intent.isDeleted === true;
  }

  /** Resolves when the object is written or the sandbox undone. */
  get finished(): Promise<void> {
    return this.#finished.promise;
  }

  /** Like {@link finished}, but resolves after 30 s at the latest: the agent may be unreachable until its Pod is deleted. */
  async settled(clock: Clock): Promise<void> {
    const done = new AbortController();
    await Promise.race([this.finished, sleep(clock, maxWaitMs, done.signal).catch(() => {})]);
    done.abort();
  }

  delete(): void {
    this.#intent = { ...this.#intent, isDeleted: true };
  }

  finish(): void {
    this.#finished.resolve();
  }
}

/** Which of two intents of an earlier process owns their name: the one that was not deleted, otherwise the later one. */
export function owns(later: Intent, earlier: Intent): boolean {
  return later.isDeleted !== true || earlier.isDeleted === true;
}
