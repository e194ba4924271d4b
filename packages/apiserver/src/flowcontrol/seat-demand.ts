/** The demand for seats of a priority level over a period. */
export interface DemandSummary {
  /** Time-weighted mean and standard deviation. */
  readonly mean: number;
  readonly deviation: number;
  readonly peak: number;
}

/** Observes how many seats the requests of a priority level occupy or wait for. */
export class SeatDemand {
  #seats = 0;
  #since: number;
  #start: number;
  #area = 0;
  #squares = 0;
  #peak = 0;

  /** `now` is monotonic, in milliseconds. */
  constructor(now: number) {
    this.#since = now;
    this.#start = now;
  }

  /** Adds to the demand from `now` on. */
  add(seats: number, now: number): void {
    this.#advance(now);
    this.#seats += seats;
    this.#peak = Math.max(this.#peak, this.#seats);
  }

  /** Summarizes the time since the last call and begins a new period. */
  take(now: number): DemandSummary {
    this.#advance(now);
    const duration = now - this.#start;
    const mean = duration > 0 ? this.#area / duration : this.#seats;
    const variance = duration > 0 ? this.#squares / duration - mean * mean : 0;
    const summary = { mean, deviation: Math.sqrt(Math.max(0, variance)), peak: this.#peak };
    this.#start = now;
    this.#area = 0;
    this.#squares = 0;
    this.#peak = this.#seats;
    return summary;
  }

  #advance(now: number): void {
    const elapsed = now - this.#since;
    this.#area += elapsed * this.#seats;
    this.#squares += elapsed * this.#seats ** 2;
    this.#since = now;
  }
}
