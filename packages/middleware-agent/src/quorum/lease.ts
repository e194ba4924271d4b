import { leaseTimes } from "./lease-times.ts";

/**
 * The lease that makes a Pod the only primary of its Group, decided by the majority of the agents. Pure.
 *
 * Every agent grants its lease to one holder at a time. Two majorities have an agent in common, so at most one Pod holds the leases
 * of a majority, and only that Pod accepts writes. The algorithm follows PaxosLease: validity is counted by the holder from the time
 * at which it sent a request and by the granter from the time at which it received it, both by monotonic clocks, so that the holder's
 * time ends first. Epochs are fencing tokens: an agent promises an epoch to one holder and persists that before it answers.
 */

/** The lease that one agent granted. */
export interface Grant {
  readonly holder: string;
  readonly expiresAt: number;
}

/** An epoch and the only Pod that can use it. */
export interface Promised {
  readonly holder: string;
  readonly epoch: number;
}

/** What an agent remembers across restarts. */
export interface LeaseRecord {
  /** Must be durable before the agent responds. */
  readonly promised: Promised;
  /** Need not be durable: it matters while agents restart, not when their machines do. */
  readonly reported: number;
}

/** The leases that a Pod collects as a candidate or holds as the primary. */
export interface Tenure {
  readonly epoch: number;
  readonly startedAt: number;
  /** Time of the last granted request, by agent. */
  readonly grants: Readonly<Record<string, number>>;
  /** What the own agent had promised before. */
  readonly before?: Promised;
  /** Whether the Pod stood once more with a newer epoch. */
  readonly isRepeated?: boolean;
  /** Agents that refused the last request. */
  readonly refusals?: readonly string[];
  /**
   * The first tenure of a Group that had no leases before. `waiting`: the other agents are not known to be members, none of them has
   * granted a lease, and so none stands. The primary accepts writes without a lease. Otherwise the time from which its lease counts
   * until it has its first majority: it was set before the first request that an agent can grant.
   */
  readonly formation?: "waiting" | number;
  /** Whether the program was made the primary. */
  readonly isPromoted?: boolean;
}

/** State of one agent. */
export interface LeaseState {
  readonly self: string;
  /** Names of the Pods of the Group. Empty: the Group has no leases, and the controller decides alone. */
  readonly members: readonly string[];
  /** Bytes that a new primary may lack of what the old one reported. */
  readonly maxLagBytes: number;
  readonly promised?: Promised;
  readonly grant?: Grant;
  /** After a start. Until then grants of an earlier run may be valid, so only the promised holder can renew. */
  readonly quietUntil: number;
  /** Epoch of the last renewal: its holder was promoted with that epoch. */
  readonly renewedEpoch?: number;
  /** Whether the Group has leases: this agent has granted one, or knows another agent that has. Until then it never stands. */
  readonly isFormed?: boolean;
  /** The newest epoch that each Pod has released. A request that arrives after its release must not be granted. */
  readonly released?: Readonly<Record<string, number>>;
  /** Replication offset that the promised holder last reported. */
  readonly reported: number;
  /** Highest epoch of any request or refusal. */
  readonly seenEpoch: number;
  readonly tenure?: Tenure;
}

/** A request for the leases of all agents, sent by a candidate, or by the primary to renew them. */
export interface LeaseRequest {
  readonly from: string;
  readonly epoch: number;
  /** Replication offset of the sender. */
  readonly offset: number;
  /** `form`: renews the lease of a first tenure that has no majority yet. `poll`: asks whether `stand` would be granted. */
  readonly kind: "form" | "poll" | "stand" | "renew" | "release";
  /**
   * A holder that accepts no writes until it gets a lease with a newer epoch: the sender has verified that its program has ended, or
   * has fenced it.
   */
  readonly over?: Promised;
  /** Grants the lease even if this agent has more data, because the controller chose the candidate. */
  readonly isAppointed?: boolean;
  /** On release: the only Pod that can have the lease next. */
  readonly successor?: string;
}

/** The answer of an agent. */
export interface LeaseAnswer {
  readonly isGranted: boolean;
  /** Highest epoch that the agent has promised. */
  readonly epoch: number;
  readonly reason?: string;
}

/** An agent that has just started. `record` is what it persisted. */
export function startLease(
  self: string,
  members: readonly string[],
  now: number,
  options: { readonly record?: LeaseRecord; readonly maxLagBytes?: number } = {},
): LeaseState {
  const { record, maxLagBytes = 0 } = options;
  return {
    self,
    members,
    maxLagBytes,
    ...(record === undefined ? {} : { promised: record.promised }),
    quietUntil: now + leaseTimes.leaseMs,
    reported: record?.reported ?? 0,
    seenEpoch: record?.promised.epoch ?? 0,
  };
}

/**
 * The holder over which a lease can be requested if its program accepts no writes. Only a holder that was promoted: a candidate
 * with a majority would end a fence that was raised before its promotion.
 */
export function promotedHolder({ promised, renewedEpoch }: LeaseState): Promised | undefined {
  return promised?.epoch === renewedEpoch ? promised : undefined;
}

/** What an agent persists. Undefined before its first promise. */
export function recordOf({ promised, reported }: LeaseState): LeaseRecord | undefined {
  return promised === undefined ? undefined : { promised, reported };
}

/** The epoch that an agent has promised, 0 before the first. */
export const epochOf = ({ promised }: LeaseState): number => promised?.epoch ?? 0;

/** The Pod that has this agent's lease now. */
export function holderAt({ grant }: LeaseState, now: number): string | undefined {
  return grant !== undefined && now < grant.expiresAt ? grant.holder : undefined;
}

/**
 * Answers a request. The new state must be persisted before the answer is sent if {@link LeaseState.promised} changed. `offset` is
 * the replication offset of the own replica, undefined if it follows no primary.
 */
export function answerLease(
  before: LeaseState,
  request: LeaseRequest,
  offset: number | undefined,
  now: number,
): { readonly state: LeaseState; readonly answer: LeaseAnswer } {
  const seenEpoch = Math.max(before.seenEpoch, request.epoch);
  if (request.kind === "release")
    return { state: release({ ...before, seenEpoch }, request, now), answer: { isGranted: true, epoch: epochOf(before) } };
  // A Pod that the controller chose may request the first lease.
  const known = request.isAppointed === true ? before : { ...before, isFormed: true };
  const reason = objectionTo(withoutCandidacy(known, request), request, offset, now);
  const refusal = { isGranted: false, epoch: epochOf(known), reason: reason ?? "" };
  if (request.kind === "poll") return { state: known, answer: reason === undefined ? { isGranted: true, epoch: 0 } : refusal };
  const state = { ...known, seenEpoch };
  if (reason !== undefined) return { state, answer: refusal };
  const { from, epoch } = request;
  const isSame = state.promised?.holder === from && state.promised.epoch === epoch;
  const next: LeaseState = {
    ...withoutCandidacy(state, request),
    promised: isSame ? state.promised : { holder: from, epoch },
    grant: { holder: from, expiresAt: now + leaseTimes.leaseMs },
    ...(isRenewal(request) ? { reported: request.offset, renewedEpoch: epoch } : {}),
  };
  return { state: next, answer: { isGranted: true, epoch } };
}

/** Whether a request renews a lease. */
export const isRenewal = ({ kind }: { readonly kind: string }): boolean => kind === "renew" || kind === "form";

/**
 * A candidate without a majority yields to a candidate with a newer epoch, or with the same one if that comes first among the members, so
 * that two candidates do not block each other. Its own lease is free then, because only its own tenure counted on it.
 */
function withoutCandidacy(state: LeaseState, { from, epoch }: LeaseRequest): LeaseState {
  const { tenure, self, members } = state;
  if (tenure === undefined || from === self || epoch < tenure.epoch) return state;
  if (epoch === tenure.epoch && members.indexOf(self) < members.indexOf(from)) return state;
  return tenure.isPromoted === true || renewedAt(state) !== undefined ? state : resign(state);
}

/** Why a request is refused. */
function objectionTo(state: LeaseState, request: LeaseRequest, offset: number | undefined, now: number): string | undefined {
  const { from, epoch, over } = request;
  const { promised } = state;
  if (!state.members.includes(from)) return `${from} is not a member`;
  if (epoch <= (state.released?.[from] ?? -1)) return `${from} has released epoch ${epoch}`;
  const holder = holderAt(state, now);
  const isOver = promised !== undefined && over?.holder === promised.holder && over.epoch === promised.epoch;
  if (holder !== undefined && holder !== from && !isOver) return `${holder} has the lease`;
  // The Group of a first tenure had no leases, so an earlier run of an agent without a promise granted none.
  const isForming = request.kind === "form" && promised === undefined;
  if (now < state.quietUntil && from !== promised?.holder && !isOver && !isForming) return "the agent has restarted";
  if (epoch < epochOf(state) || (epoch === promised?.epoch && from !== promised.holder))
    return `epoch ${epoch} must be newer than ${epochOf(state)}`;
  if (isRenewal(request) || request.isAppointed === true) return undefined;
  if (offset !== undefined && offset > request.offset) return `${state.self} has more data`;
  const lag = state.reported - request.offset;
  return lag > state.maxLagBytes ? `${from} lacks ${lag} bytes of the primary` : undefined;
}

/** Ends the lease of a holder that accepts no more writes. */
function release(before: LeaseState, { from, epoch, successor }: LeaseRequest, now: number): LeaseState {
  const released = { ...before.released, [from]: Math.max(epoch, before.released?.[from] ?? 0) };
  const state = { ...before, released };
  const { grant: _, ...rest } = state;
  // An agent that never granted its lease, because it is quiet, knows neither the holder nor another one.
  const isKnown = state.promised?.holder === from && state.promised.epoch === epoch;
  if (!isKnown && (state.promised !== undefined || successor === undefined)) return state;
  if (successor === undefined) return rest;
  return {
    ...rest,
    seenEpoch: Math.max(state.seenEpoch, epoch + 1),
    promised: { holder: successor, epoch: epoch + 1 },
    grant: { holder: successor, expiresAt: now + leaseTimes.leaseMs },
  };
}

/**
 * Starts to collect leases with an epoch that no agent is known to have promised. An epoch is never used for two tenures: a late
 * release or proof of the first must not end the second.
 */
export function stand(state: LeaseState, now: number, minEpoch = 0): LeaseState {
  const epoch = Math.max(minEpoch, state.seenEpoch + 1);
  const before = state.promised === undefined ? {} : { before: state.promised };
  return { ...state, seenEpoch: epoch, tenure: { epoch, startedAt: now, grants: {}, ...before } };
}

/** Records an answer to a request that was sent at `sentAt`. */
export function recordAnswer(state: LeaseState, from: string, epoch: number, answer: LeaseAnswer, sentAt: number): LeaseState {
  const { tenure } = state;
  if (tenure === undefined || tenure.epoch !== epoch) return state;
  if (answer.isGranted) {
    const at = Math.max(sentAt, tenure.grants[from] ?? sentAt);
    const refusals = tenure.refusals?.filter((each) => each !== from) ?? [];
    return { ...state, tenure: { ...tenure, refusals, grants: { ...tenure.grants, [from]: at } } };
  }
  // An earlier grant of the same tenure runs until it expires.
  const refusals = [...(tenure.refusals ?? []).filter((each) => each !== from), from];
  return { ...state, seenEpoch: Math.max(state.seenEpoch, answer.epoch), tenure: { ...tenure, refusals } };
}

/** Records that the program was made the primary. */
export function promoted(state: LeaseState): LeaseState {
  return state.tenure === undefined ? state : { ...state, tenure: { ...state.tenure, isPromoted: true } };
}

/**
 * Gives up a tenure. The own promise to a candidacy that failed is forgotten, because its epoch is never used again: otherwise a Pod
 * that stood while it was cut off would refuse the primary of the others.
 */
export function resign({ tenure, ...state }: LeaseState): LeaseState {
  const { promised, grant: _, ...rest } = state;
  const isOwn = promised?.holder === state.self && promised.epoch === tenure?.epoch;
  if (tenure === undefined || tenure.isPromoted === true || !isOwn) return state;
  return { ...rest, ...(tenure.before === undefined ? {} : { promised: tenure.before }) };
}

/** Number of agents that are a majority. */
export const majorityOf = ({ members }: LeaseState): number => Math.floor(members.length / 2) + 1;

/** The latest time at which a majority is known to have granted its leases. Undefined without a majority. */
export function renewedAt(state: LeaseState): number | undefined {
  const times = Object.entries(state.tenure?.grants ?? {})
    .filter(([member]) => state.members.includes(member))
    .map(([, sentAt]) => sentAt)
    .sort((a, b) => b - a);
  return times[majorityOf(state) - 1];
}

/** The time from which the lease of this Pod counts. Undefined without one. */
export function leaseFrom(state: LeaseState): number | undefined {
  const formation = state.tenure?.formation;
  return renewedAt(state) ?? (formation === "waiting" ? undefined : formation);
}

/** Whether this Pod may accept writes. Without leases the controller decides. */
export function mayWrite(state: LeaseState, now: number): boolean {
  if (state.members.length === 0 || state.tenure?.formation === "waiting") return true;
  const at = leaseFrom(state);
  return at !== undefined && now < at + leaseTimes.fenceMs;
}
