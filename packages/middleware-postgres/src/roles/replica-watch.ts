import type { Clock, Timer } from "@keelson/api-machinery/time";

/** A replica that has not streamed for this long compares its data with that of its primary again. */
const repairMs = 3_000;
const checkMs = 1_000;

/** Notices that a replica has stopped streaming, even while no controller asks for its role. */
export class ReplicaWatch {
  readonly #clock: Clock;
  readonly #check: () => Promise<unknown>;
  #timer: Timer | undefined;
  #outOfSyncSince: number | undefined;

  /** `check` calls {@link isDue} with the current state. */
  constructor(clock: Clock, check: () => Promise<unknown>) {
    this.#clock = clock;
    this.#check = check;
  }

  /** Checks repeatedly from now on. */
  start(): void {
    if (this.#timer !== undefined) return;
    const next = (): void => {
      this.#timer = this.#clock.setTimer(
        checkMs,
        () =>
          void this.#check()
            .catch(() => undefined)
            .then(() => this.#timer && next()),
        { background: true },
      );
    };
    next();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Whether the replica must compare its data: it may be ahead of a new primary, or lack log that its primary has not kept. */
  isDue(isSettled: boolean): boolean {
    const now = this.#clock.monotonic();
    if (isSettled) this.#outOfSyncSince = undefined;
    else this.#outOfSyncSince ??= now;
    if (this.#outOfSyncSince === undefined || now - this.#outOfSyncSince < repairMs) return false;
    this.#outOfSyncSince = undefined;
    return true;
  }
}
