import { type LeaseRecord, type LeaseState, type Promised, startLease } from "../quorum/lease.ts";
import { leaseTimes } from "../quorum/lease-times.ts";

/** Options of a model. */
export interface ModelOptions {
  readonly seed: number;
  readonly size: number;
  /** No random faults. */
  readonly isQuiet?: boolean;
  /** Random faults may destroy volumes, and with them what an agent has promised. */
  readonly losesVolumes?: boolean;
  /** A deliberate mistake, to show that the model finds it. */
  readonly flaw?: "short-grants" | "no-quiet-time" | "any-candidate" | "late-count";
}

/** A Group of agents and programs in virtual time, with random faults. */
export interface LeaseModel {
  /** Advances time by one step of 50 ms. */
  step(): void;
  /** The Pod that accepts writes. */
  writable(): string | undefined;
  fail(name: string, fault: "kill" | "freeze"): void;
  /** Whether the agents elect a primary by themselves. */
  readonly isFormed: boolean;
  /**
   * Ends all faults, except that only a random majority stays connected. Returns whether one of its Pods can be elected: it has a role,
   * and the data of the others.
   */
  settle(): boolean;
  /** Whether the majority of {@link settle} has a Pod that accepts writes. */
  readonly hasSettledPrimary: boolean;
  /** The invariant that was violated. */
  readonly violation: string | undefined;
  readonly elections: number;
  readonly history: readonly string[];
}

/** A server of a Pod. */
interface ModelProgram {
  isUp: boolean;
  role: "primary" | "replica" | "other";
  isFenced: boolean;
  follows: string;
  /** Data is a number of writes in one history; a new primary continues from its own number. */
  offset: number;
}

/** A Pod with its agent, its server and its guard. */
export interface ModelNode {
  readonly name: string;
  /** Speed of its clock. */
  readonly rate: number;
  lease: LeaseState;
  program: ModelProgram;
  isFrozen: boolean;
  /** Restarts at this time. */
  downUntil: number | undefined;
  /** What it persisted. */
  record: LeaseRecord | undefined;
  /** The guard kills the program at this local time. */
  guardAt: number | undefined;
  /** When its agent started, by its clock. */
  startedAt: number;
  askedAt: number;
  standAt: number | undefined;
  /** Agents that can grant the first lease. */
  ready: readonly string[];
  over: Promised | undefined;
  isAppointed: boolean;
}

/** A message between agents. */
export interface ModelMessage {
  readonly at: number;
  readonly to: string;
  readonly from: string;
  readonly deliver: (node: ModelNode) => void;
}

/** A Pod at the start. */
export function createNode(name: string, members: readonly string[], rate: number): ModelNode {
  const isPrimary = name === members[0];
  return {
    name,
    rate,
    lease: startLease(name, [], 0),
    ready: [],
    program: { isUp: true, role: isPrimary ? "primary" : "replica", isFenced: false, follows: members[0] ?? "", offset: 1 },
    isFrozen: false,
    downUntil: undefined,
    record: undefined,
    guardAt: undefined,
    startedAt: 0,
    askedAt: -leaseTimes.renewMs,
    standAt: undefined,
    over: undefined,
    isAppointed: false,
  };
}

/** A small seeded generator (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Time of one step. */
export const stepMs = 50;

/** Runs a model until a condition holds. Returns the time it took, or `limitMs`. */
export function runUntil(model: LeaseModel, isReached: () => boolean, limitMs: number): number {
  for (let at = 0; at < limitMs; at += stepMs) {
    if (isReached()) return at;
    model.step();
  }
  return limitMs;
}
