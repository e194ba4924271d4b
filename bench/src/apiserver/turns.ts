/** The longest turns of an event loop in an interval, in ms. */
export interface LongestTurns {
  /** By the wall clock: on a busy machine, this includes time in which the process could not run. */
  readonly wallMs: number;
  /** By the CPU time of the process. */
  readonly processorMs: number;
}

/** Measures the turns of this process's event loop. */
export class TurnMeter {
  #wallMs = 0;
  #processorMs = 0;
  #at = performance.now();
  #used = processorMs();

  /** Starts measuring. It does not keep the process alive. */
  start(): void {
    setInterval(() => this.#measure(), 1).unref();
  }

  /** The longest turns since the last call. */
  take(): LongestTurns {
    const longest = { wallMs: this.#wallMs, processorMs: this.#processorMs };
    this.#wallMs = 0;
    this.#processorMs = 0;
    return longest;
  }

  /** Between two timers lies about one turn. Threads of the process use processors as well, so the time counts up to that of the clock. */
  #measure(): void {
    const at = performance.now();
    const used = processorMs();
    const wallMs = at - this.#at;
    this.#wallMs = Math.max(this.#wallMs, wallMs);
    this.#processorMs = Math.max(this.#processorMs, Math.min(wallMs, used - this.#used));
    this.#at = at;
    this.#used = used;
  }
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
