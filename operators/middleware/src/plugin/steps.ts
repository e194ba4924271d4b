import { setImmediate as nextTurn } from "node:timers/promises";

/** A computation in steps, so that other events can be handled between them. */
export type Steps<T> = Generator<undefined, T, void>;

/** Takes all steps without a pause. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Takes the steps in turns of the event loop. */
export async function runInSteps<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await nextTurn();
  }
}
