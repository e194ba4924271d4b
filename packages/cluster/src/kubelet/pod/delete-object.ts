import { isNotFound, isStatusError } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { sleep } from "@keelson/api-machinery/time";
import type { NodeContext } from "../node-context.ts";
import type { PodView } from "./pod-view.ts";

const firstDelayMs = 500;
const maxDelayMs = 30_000;

/**
 * Deletes the object of a terminated Pod with grace period 0, retrying with backoff. Ends early once `isDeleted`. Rejects if `signal`
 * fires.
 */
export async function deleteObject(
  { client, clock }: Pick<NodeContext, "client" | "clock">,
  { metadata: { namespace, name = "", uid = "" } }: PodView,
  isDeleted: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  for (let delayMs = firstDelayMs; !isDeleted(); delayMs = Math.min(delayMs * 2, maxDelayMs)) {
    try {
      await client.delete(Pod, { namespace, name }, { gracePeriodSeconds: 0, preconditions: { uid } });
      return;
    } catch (error) {
      if (isNotFound(error) || isStatusError(error, "Conflict")) return;
      await sleep(clock, delayMs, signal);
    }
  }
}
