/** Maximum time until a launcher that is starting accepts the worker. One that has ended refuses connections too. */
export const startTimeoutMs = 30 * 60_000;
/** Maximum time without a sign that the launcher is starting. */
export const unreachableTimeoutMs = 60_000;

/** Errors of a launcher that is starting: its Pod has no address yet, or does not listen yet. */
const startingCodes: ReadonlySet<unknown> = new Set(["ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED"]);

/** How long a worker tries to connect to its launcher. Times are monotonic, in milliseconds. */
export class LauncherWait {
  readonly #startedAt: number;
  /** When the wait began, or the last sign that the launcher was starting. */
  #unreachableSince: number;

  constructor(now: number) {
    this.#startedAt = now;
    this.#unreachableSince = now;
  }

  /** Whether to retry after a failure to connect with this error code. */
  continuesAfter(code: string | undefined, now: number): boolean {
    if (startingCodes.has(code)) this.#unreachableSince = now;
    return now - this.#unreachableSince <= unreachableTimeoutMs && now - this.#startedAt <= startTimeoutMs;
  }
}
