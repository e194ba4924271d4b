import type { Leadership } from "@keelson/controller";

interface OperatorState {
  descriptions: readonly string[];
  printed: number;
  hasStarted: boolean;
  leadership: Leadership | undefined;
}

/**
 * Prints the leadership of the operators in one process: a line when one starts leading or standing by, `standby` once all have
 * started and at least one waits for its lease, and `ready` once all lead.
 */
export class LeadershipReport {
  readonly #count: number;
  readonly #print: (line: string) => void;
  readonly #operators = new Map<string, OperatorState>();
  #reported: "ready" | "standby" | undefined;

  constructor(count: number, print: (line: string) => void) {
    this.#count = count;
    this.#print = print;
  }

  /** Records that an operator has started. `descriptions` may grow once it leads. */
  started(name: string, descriptions: readonly string[]): void {
    const state = this.#stateOf(name);
    state.descriptions = descriptions;
    state.hasStarted = true;
    this.#printDescriptions(name, state);
    this.#printSummary();
  }

  /** Records a change of leadership. */
  changed(name: string, leadership: Leadership): void {
    const state = this.#stateOf(name);
    state.leadership = leadership;
    this.#printDescriptions(name, state);
    if (leadership.kind === "leading") this.#print(`${name}\tleading`);
    else
      this.#print(
        `${name}\tstandby: ${leadership.holder === undefined ? "the lease has no holder" : `${leadership.holder} holds the lease`}`,
      );
    this.#printSummary();
  }

  #stateOf(name: string): OperatorState {
    const known = this.#operators.get(name);
    if (known !== undefined) return known;
    const state: OperatorState = { descriptions: [], printed: 0, hasStarted: false, leadership: undefined };
    this.#operators.set(name, state);
    return state;
  }

  #printDescriptions(name: string, state: OperatorState): void {
    for (const line of state.descriptions.slice(state.printed)) this.#print(`${name}\t${line}`);
    state.printed = state.descriptions.length;
  }

  #printSummary(): void {
    const states = [...this.#operators.values()];
    const isUp = states.length === this.#count && states.every(({ hasStarted }) => hasStarted);
    if (!isUp || states.some(({ leadership }) => leadership === undefined)) return;
    const now = states.every(({ leadership }) => leadership?.kind === "leading") ? "ready" : "standby";
    if (now !== this.#reported) this.#print(now);
    this.#reported = now;
  }
}
