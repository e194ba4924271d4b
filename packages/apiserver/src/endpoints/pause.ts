import { setImmediate as nextTurn } from "node:timers/promises";
import { runSteps, type Steps } from "@keelson/api-machinery/server";
import type { Call } from "./call.ts";

/** Larger bodies and objects are handled in several turns of the event loop. A smaller one takes a few milliseconds in total. */
const minBytes = 32 * 1024;

/** Whether a body or an object is handled in several turns. */
export const isLarge = (bytes: number): boolean => bytes > minBytes;

/**
 * Lets other requests run, if the object of this one is large. Called between the stages of a write, each of which takes time
 * proportional to the size of the object.
 */
export function pauseIfLarge({ load }: Pick<Call, "load">): Promise<void> | undefined {
  return isLarge(load.bytes) ? nextTurn() : undefined;
}

/** Takes the steps of a computation, each in its own turn if `bytes` are large. Only then, it returns a promise. */
export function takeSteps<T>(steps: Steps<T>, bytes: number): T | Promise<T> {
  return isLarge(bytes) ? takeTurns(steps) : runSteps(steps);
}

/** Takes the steps of a computation, each in its own turn. */
export async function takeTurns<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await nextTurn();
  }
}
