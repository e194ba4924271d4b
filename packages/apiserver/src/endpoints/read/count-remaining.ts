import type { PinnedState } from "../../storage/store.ts";
import type { Call } from "../call.ts";

/**
 * The number of objects that begin with `prefix` and follow `key`. Long counts take several turns of the event loop. Rejects if the client
 * has disconnected.
 */
export async function countRemaining(
  { turns, request }: { readonly turns: Pick<Call["turns"], "enter">; readonly request: Pick<Call["request"], "signal"> },
  state: Pick<PinnedState, "countAfter">,
  prefix: string,
  key: string,
): Promise<number> {
  let count = 0;
  for (const part of state.countAfter(prefix, key)) {
    count += part;
    const turn = turns.enter();
    if (turn === undefined) continue;
    await turn;
    request.signal?.throwIfAborted();
  }
  return count;
}
