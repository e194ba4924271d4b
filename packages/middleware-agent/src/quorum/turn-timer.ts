import type { Clock, Timer } from "@keelson/api-machinery/time";

/** Takes turns one after another. A turn that is requested while one runs follows it. */
export class TurnTimer {
  readonly #clock: Clock;
  readonly #act: () => Promise<number | undefined>;
  #timer: Timer | undefined;
  #isTurning = false;
  #isUrgent = false;
  #isStopped = false;

  /** `act` resolves to the time until the next turn, undefined for none. It does not reject. */
  constructor(clock: Clock, act: () => Promise<number | undefined>) {
    this.#clock = clock;
    this.#act = act;
  }

  /** Takes the next turn after a delay; with delay 0 right after the current one. */
  schedule(delayMs: number): void {
    if (this.#isTurning) {
      this.#isUrgent ||= delayMs === 0;
      return;
    }
    this.#timer?.cancel();
    if (!this.#isStopped) this.#timer = this.#clock.setTimer(delayMs, () => void this.#turn(), { background: true });
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  async #turn(): Promise<void> {
    this.#isTurning = true;
    this.#isUrgent = false;
    const nextMs = await this.#act();
    this.#isTurning = false;
    if (this.#isUrgent) this.schedule(0);
    else if (nextMs !== undefined) this.schedule(nextMs);
  }
}
