import { type LeaseState, majorityOf, renewedAt, stand } from "./lease.ts";

/*
 * How the first primary of a Group gets its lease. Until then the agents elect no primary, and the controller alone decides.
 *
 *   waiting --> a majority is ready: the lease counts from now on --> requested --> a majority has granted it: formed
 *
 * The lease counts before the first agent can grant it, and an agent stands only after it has granted one. So whatever answers are lost,
 * the primary rejects writes before another Pod is elected.
 */

/** Starts the first tenure of a Group that had no leases. Its program is the primary. */
export function startFormation(state: LeaseState, now: number, epoch: number): LeaseState {
  const { tenure, ...next } = stand(state, now, epoch);
  return tenure === undefined ? next : { ...next, tenure: { ...tenure, formation: "waiting", isPromoted: true } };
}

/**
 * Makes the lease of a first tenure count from now on if a majority can grant it. `ready`: other agents that know this Pod as a member
 * and have promised no other one. Only after that may the primary request leases.
 */
export function recordReady(state: LeaseState, ready: readonly string[], now: number): LeaseState {
  const { tenure, members, self } = state;
  const others = ready.filter((name) => name !== self && members.includes(name));
  if (tenure?.formation !== "waiting" || others.length + 1 < majorityOf(state)) return state;
  return { ...state, tenure: { ...tenure, formation: now } };
}

/** Whether the primary of this first tenure does not have the leases of a majority yet. */
export function isForming(state: LeaseState): boolean {
  return state.tenure?.formation !== undefined && renewedAt(state) === undefined;
}

/** Whether an agent can grant its lease to the first primary of a Group. */
export function isReadyFor({ members, promised }: LeaseState, primary: string): boolean {
  return members.includes(primary) && (promised === undefined || promised.holder === primary);
}
