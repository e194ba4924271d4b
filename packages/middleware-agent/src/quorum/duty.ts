import { isHopeless, shouldStand } from "./candidacy.ts";
import { leaseFrom, type LeaseState, mayWrite, renewedAt } from "./lease.ts";
import { leaseTimes } from "./lease-times.ts";

/** What an agent sees of its own program. */
export interface ProgramView {
  /** `other`: it was restarted and has no role, or does not respond. */
  readonly role: "primary" | "replica" | "other";
  readonly offset: number;
  /** Whether the program rejects all writes. */
  readonly isFenced: boolean;
  /** Whether the program of the promised holder was found not running. */
  readonly isHolderDown: boolean;
}

/** What an agent does next for the lease of its Pod. */
export type Duty =
  | "nothing"
  /** Asks whether a majority can grant the first lease of the Group. */
  | "form"
  /** Requests the leases of all agents again. */
  | "renew"
  /** Rejects writes and gives up the tenure. It may stand again with a newer epoch. */
  | "step-down"
  /** Stands once more with a newer epoch. */
  | "repeat"
  /** Gives up a candidacy that found no majority. */
  | "give-up"
  /** Makes the own program the primary. */
  | "promote"
  /** Becomes a candidate. */
  | "stand";

/** Decides about the lease of a Pod. Pure. */
export function dutyOf(state: LeaseState, program: ProgramView, now: number): Duty {
  const { members, tenure } = state;
  if (members.length === 0) return "nothing";
  if (tenure === undefined) {
    // A deposed primary has the most data, so it may stand like a replica.
    return program.role !== "other" && shouldStand(state, program.offset, program.isHolderDown, now) ? "stand" : "nothing";
  }
  const isPrimary = program.role === "primary" && !program.isFenced;
  const isWaiting = tenure.formation === "waiting";
  if (isPrimary) return isWaiting ? "form" : mayWrite(state, now) ? "renew" : "step-down";
  if (renewedAt(state) !== undefined && tenure.isPromoted !== true) return mayWrite(state, now) ? "promote" : "give-up";
  // Promoted, and then fenced by another agent. A program that does not respond cannot be fenced: its guard ends it in time.
  if (tenure.isPromoted === true) {
    if (program.role !== "other") return "step-down";
    // No other Pod can be elected while the primary waits, and no guard would end its program.
    if (isWaiting) return "nothing";
    return now >= (leaseFrom(state) ?? tenure.startedAt) + leaseTimes.leaseMs ? "give-up" : "nothing";
  }
  if (isHopeless(state) || now >= tenure.startedAt + leaseTimes.candidacyMs) return "give-up";
  const isRefused = (tenure.refusals ?? []).length > 0 && tenure.isRepeated !== true;
  return isRefused && now >= tenure.startedAt + leaseTimes.repeatMs ? "repeat" : "nothing";
}
