import { setImmediate as nextTurn } from "node:timers/promises";
import type { Call } from "./call.ts";

/** Requests with a larger body pause between the stages of a write. A smaller one takes a few milliseconds in total. */
const minBytes = 32 * 1024;

/**
 * Lets other requests run, if this one is large. Called between the stages of a write, each of which takes time proportional to the size
 * of the object.
 */
export async function pauseIfLarge({ request }: Pick<Call, "request">): Promise<void> {
  if ((request.bodyBytes ?? 0) > minBytes) await nextTurn();
}
