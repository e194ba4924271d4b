import { holderAt, type LeaseAnswer, type LeaseState, majorityOf, resign, stand } from "./lease.ts";

/**
 * Whether a replica should stand for election: the primary's lease has expired or was released, or `isHolderDown`: its program was
 * found not running. An agent that does not know that the Group has leases never stands: its first primary may accept writes without one.
 */
export function shouldStand(state: LeaseState, offset: number, isHolderDown: boolean, now: number): boolean {
  const { promised, isFormed = promised !== undefined, tenure, members, self, reported, maxLagBytes } = state;
  if (!isFormed || tenure !== undefined || !members.includes(self)) return false;
  if (reported - offset > maxLagBytes) return false;
  if (isHolderDown) return true;
  const holder = holderAt(state, now);
  return now >= state.quietUntil && (holder === undefined || holder === self);
}

/** How long an agent waits before it stands, so that two rarely stand at the same time. `random` is between 0 and 1. */
export function standDelayMs({ members, self }: LeaseState, random: number): number {
  return members.indexOf(self) * 100 + random * 200;
}

/** Whether so many agents refused that a candidate cannot have a majority. */
export function isHopeless(state: LeaseState): boolean {
  return state.members.length - (state.tenure?.refusals ?? []).length < majorityOf(state);
}

/** Records the answer to a poll. The next one has a newer epoch. */
export function recordPoll(state: LeaseState, { epoch }: LeaseAnswer): LeaseState {
  return { ...state, seenEpoch: Math.max(state.seenEpoch, epoch) };
}

/** Stands once more with a newer epoch: agents have promised the previous one to a candidate that yielded. */
export function repeatCandidacy(state: LeaseState, now: number): LeaseState {
  const { tenure, ...next } = stand(resign(state), now);
  return tenure === undefined ? next : { ...next, tenure: { ...tenure, isRepeated: true } };
}
