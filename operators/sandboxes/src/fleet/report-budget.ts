import { setImmediate as nextTurn } from "node:timers/promises";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { type Clock, sleep } from "@keelson/api-machinery/time";

/** Share of the operator's time that reports may take in the long run: those of one agent, and those of all together. */
const share = 0.25;
/** Time that they may take beyond that in a burst. */
const burstMs = 100;
/** Time after which the check of a report lets others run. */
const stepMs = 5;

/** Lets others run if a step has taken long enough. Undefined if it has not. */
export type Pause = () => Promise<void> | undefined;

/** Lets others run whenever a step has taken long enough. */
export function createPause(clock: Clock): Pause {
  let from = clock.monotonic();
  return () =>
    clock.monotonic() - from < stepMs
      ? undefined
      : nextTurn().then(() => {
          from = clock.monotonic();
        });
}

/** Time that was spent, and is paid for by waiting. */
class Debt {
  readonly #clock: Clock;
  #spentMs = 0;
  #countedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#countedAt = clock.monotonic();
  }

  spend(ms: number): void {
    const now = this.#clock.monotonic();
    this.#spentMs = Math.max(this.#spentMs - (now - this.#countedAt) * share, 0) + ms;
    this.#countedAt = now;
  }

  /** Resolves when more may be spent, or when `signal` aborts. */
  async paid(signal: AbortSignal): Promise<void> {
    this.spend(0);
    if (this.#spentMs > burstMs) await sleep(this.#clock, (this.#spentMs - burstMs) / share, signal).catch(() => {});
  }
}

/**
 * Limits the time that the operator spends on the reports of its agents. Reports are handled one at a time, in the order in which their agents ask,
 * so an agent that floods the operator delays a report of another one by one report of its own. Reports that are not read wait at their agents,
 * which send the latest state instead of each one.
 */
export class ReportBudget {
  readonly #clock: Clock;
  readonly #total: Debt;
  #last: Promise<void> = Promise.resolve();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#total = new Debt(clock);
  }

  /** The budget of one agent, which also spends this one. */
  forAgent(): AgentBudget {
    return new AgentBudget(this, this.#clock);
  }

  spend(ms: number): void {
    this.#total.spend(ms);
  }

  /** Runs `work` after that of others. Rejects if `signal` has aborted. */
  async inTurn<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#last;
    const turn = createDeferred<void>();
    this.#last = turn.promise;
    try {
      await before;
      await this.#total.paid(signal);
      signal.throwIfAborted();
      return await work();
    } finally {
      turn.resolve();
    }
  }
}

/** The budget of one agent within a {@link ReportBudget}. */
export class AgentBudget {
  readonly #shared: ReportBudget;
  readonly #clock: Clock;
  readonly #own: Debt;

  constructor(shared: ReportBudget, clock: Clock) {
    this.#shared = shared;
    this.#clock = clock;
    this.#own = new Debt(clock);
  }

  /** Time that its reports have taken. */
  spend(ms: number): void {
    this.#own.spend(ms);
    this.#shared.spend(ms);
  }

  /** Reads a report when both budgets permit it. `work` must await `pause` between its steps. Rejects if `signal` has aborted. */
  async read<T>(work: (pause: Pause) => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#own.paid(signal);
    return this.#shared.inTurn(() => this.#measure(work), signal);
  }

  /** Counts the time of the steps, without that of others between them. */
  async #measure<T>(work: (pause: Pause) => Promise<T>): Promise<T> {
    const clock = this.#clock;
    let from = clock.monotonic();
    const pause = (): Promise<void> | undefined => {
      const ms = clock.monotonic() - from;
      if (ms < stepMs) return undefined;
      this.spend(ms);
      return nextTurn().then(() => {
        from = clock.monotonic();
      });
    };
    try {
      return await work(pause);
    } finally {
      this.spend(clock.monotonic() - from);
    }
  }
}

/** How the statuses of an agent are read. */
export interface StatusOptions {
  readonly budget: AgentBudget;
  readonly clock: Clock;
  /** Maximum number of its sandboxes, which bounds its statuses. Undefined: that of every pool. */
  readonly capacity: number | undefined;
}
