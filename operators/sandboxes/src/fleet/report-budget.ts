import { type Clock, sleep } from "@keelson/api-machinery/time";

/** Share of the operator's time that the reports of one agent may take in the long run. */
const share = 0.25;
/** Time that they may take beyond that in a burst. */
const burstMs = 100;

/**
 * Limits the time that the operator spends on the reports of one agent, so that an agent that floods it with reports delays its own only. Reports
 * that are not read wait at the agent, which sends the latest state instead of each one.
 */
export class ReportBudget {
  readonly #clock: Clock;
  #spentMs = 0;
  #countedAt: number;
  #beganAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#countedAt = clock.monotonic();
    this.#beganAt = this.#countedAt;
  }

  /** Begins to handle a report. */
  begin(): void {
    this.#beganAt = this.#clock.monotonic();
  }

  /** Ends to handle a report. Resolves when the next one may be read, or when `signal` aborts. */
  async end(signal: AbortSignal): Promise<void> {
    const now = this.#clock.monotonic();
    this.#spentMs = Math.max(this.#spentMs - (now - this.#countedAt) * share, 0) + (now - this.#beganAt);
    this.#countedAt = now;
    if (this.#spentMs > burstMs) await sleep(this.#clock, (this.#spentMs - burstMs) / share, signal).catch(() => {});
  }
}
