/** A computation in steps. A server does other work between two steps of a long one. */
export type Steps<T> = Generator<undefined, T, void>;

/** Takes all steps without a pause. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** The same computation, with one step for every `count` of its steps. */
export function* groupSteps<T>(steps: Steps<T>, count: number): Steps<T> {
  for (let taken = 1; ; taken++) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (taken % count === 0) yield;
  }
}
