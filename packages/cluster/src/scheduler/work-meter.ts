/**
 * Nodes and Pods that are examined in one step of a round. One takes up to 10 µs, and several times as long before the code is
 * compiled, so that a step blocks the event loop for a few milliseconds.
 */
export const workPerStep = 200;

/** Counts the work of a round across Pods and nodes, because the cost of placing one Pod grows with both. */
export class WorkMeter {
  #left = workPerStep;

  /** Counts a node or Pod that is about to be examined, and returns whether the step ends before it. */
  endsStep(): boolean {
    const ends = this.#left === 0;
    if (ends) this.#left = workPerStep;
    this.#left -= 1;
    return ends;
  }
}
