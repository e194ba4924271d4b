import type { DeepReadonly } from "@keelson/api-machinery";
import type { GroupRollout } from "../api/update-policy.ts";
import { type Entries, type Entry, entriesOf } from "./rollout-entries.ts";
import { describeProgress, type RolloutCounts } from "./rollout-message.ts";
import type { Copy, RolloutObservation } from "./rollout-observation.ts";

/** What to do with the copies, and the status to store. */
export interface RolloutDecision {
  /** Copies whose Task is to be deleted now. */
  readonly stop: readonly string[];
  /** Missing copies that are created from the stable revision; the other missing ones are created from the new one. */
  readonly createStable: ReadonlySet<string>;
  /** Missing copies that are not created yet. */
  readonly postpone: ReadonlySet<string>;
  /** Number of surplus Tasks to delete now. */
  readonly removeSurplus: number;
  readonly status: GroupRollout;
  readonly requeueAfterMs?: number;
}

/**
 * Decides how a group's tasks are replaced by those of another revision.
 *
 * **Guarantees**: at most `maxParallel` tasks are updated at the same time, including those that an earlier rollout has stopped. A task
 * is stopped only after the stored status lists it, so a crash at any point changes nothing. Without pause, canary or closed window, a rollout ends: as completed or failed. A revert does not
 * fail, and ends with every task on an online robot at its revision. Tasks on offline robots neither delay nor fail a rollout;
 * they are updated when their robot returns, unless more of them than a rollout survives are unhealthy by then.
 */
export function decideRollout(observed: RolloutObservation): RolloutDecision {
  const { revision, copies, before, now } = observed;
  const stored = before?.revision === revision ? before : undefined;
  const isOver = stored === undefined ? isInitial(observed) : stored.phase === "completed";
  const entries = entriesOf(observed, stored, isOver);
  const outcome = outcomeOf(observed, stored, entries, isOver);
  const started = outcome.start.map(({ key, robot }) => ({
    task: key,
    ...(robot === undefined ? {} : { robot }),
    since: new Date(now).toISOString(),
  }));
  const updating = [...(outcome.phase === "failed" ? underway(observed, entries.list) : entries.list), ...started];
  const updatingKeys = new Set(updating.map(({ task }) => task));
  const storedKeys = new Set((stored?.updating ?? []).map(({ task }) => task));
  const missing = copies.filter((copy) => copy.revision === undefined && !updatingKeys.has(copy.key));
  const isSettled = outcome.phase === "completed" || revision === observed.stable;
  const counts = countsOf(observed, updatingKeys, entries.unhealthy.length);
  const status: GroupRollout = {
    revision,
    phase: outcome.phase,
    reason: outcome.reason,
    message: stored?.phase === "failed" ? (stored.message ?? "") : describeProgress(counts, revision, outcome.message),
    ...counts,
    progressAt: outcome.progressAt,
    ...(updating.length === 0 ? {} : { updating }),
  };
  const dueMs = nextTimeOf(observed, updating, outcome);
  const isStopped = (copy: Copy): boolean =>
    isReplaceable(copy, revision) && !copy.isOffline && storedKeys.has(copy.key) && outcome.phase !== "failed";
  return {
    stop: copies.filter(isStopped).map(({ key }) => key),
    createStable: new Set(isSettled ? [] : missing.filter(({ isInStable }) => isInStable).map(({ key }) => key)),
    postpone: new Set([
      ...(isSettled ? [] : missing.filter(({ isInStable }) => !isInStable).map(({ key }) => key)),
      // A copy is created once the stored status lists it.
      ...(isSettled ? [] : started.map(({ task }) => task)),
    ]),
    removeSurplus: Math.max(outcome.removeSurplus, observed.surplus.unneeded ?? 0),
    status,
    ...(dueMs === undefined ? {} : { requeueAfterMs: Math.max(dueMs - now, 0) }),
  };
}

/** Whether the group gets its first tasks, which are created at the same time. */
function isInitial({ revision, stable, isRevert, copies }: RolloutObservation): boolean {
  return revision === stable && !isRevert && copies.every((copy) => copy.revision === undefined || copy.revision === revision);
}

/** Whether a copy has a Task of another revision that is not being deleted. */
function isReplaceable(copy: Copy, revision: number): boolean {
  return copy.revision !== undefined && copy.revision !== revision && !copy.isDeleting;
}

/** Entries whose old Task is stopped. */
function underway({ copies, revision }: RolloutObservation, entries: readonly Entry[]): readonly Entry[] {
  const kept = new Set(copies.filter((copy) => !isReplaceable(copy, revision)).map(({ key }) => key));
  return entries.filter(({ task }) => kept.has(task));
}

interface Outcome {
  readonly phase: "progressing" | "waiting" | "completed" | "failed";
  readonly reason: string;
  readonly message?: string;
  readonly progressAt: string;
  readonly start: readonly Copy[];
  readonly removeSurplus: number;
}

function outcomeOf(
  observed: RolloutObservation,
  stored: DeepReadonly<GroupRollout> | undefined,
  entries: Entries,
  isOver: boolean,
): Outcome {
  const { policy, surplus, isRevert, now } = observed;
  const nowText = new Date(now).toISOString();
  const { active, unhealthy } = entries;
  const progressAt = stored?.progressAt === undefined || entries.hasProgress ? nowText : stored.progressAt;
  const idle = { progressAt, start: [], removeSurplus: 0 };
  if (stored?.phase === "failed") {
    return { ...idle, phase: "failed", reason: stored.reason ?? "Failed" };
  }
  if (!isOver && !isRevert && unhealthy.length > policy.maxUnhealthy) {
    const first = unhealthy[0];
    const example =
      first === undefined ? "" : `, such as ${first.task}${first.robot === undefined ? "" : ` on ${first.robot}`}`;
    const message = `${unhealthy.length} unhealthy${example} (${first?.problem ?? ""}), at most ${policy.maxUnhealthy} allowed`;
    return { ...idle, phase: "failed", reason: "UnhealthyTasks", message };
  }
  const candidates = candidatesOf(observed, entries, isOver);
  const isDone = candidates.length === 0 && active.length === 0;
  if (isDone && surplus.total === 0) return { ...idle, phase: "completed", reason: "Completed" };
  const hold = holdOf(observed, entries, candidates, isOver);
  if (hold !== undefined) {
    // A rollout that is over stays so.
    const phase = isOver ? "completed" : "waiting";
    return { ...idle, phase, reason: hold.reason, message: hold.message, removeSurplus: isOver ? surplus.total : 0 };
  }
  // Time in which the rollout waited does not count.
  const continuedAt = stored?.phase === "waiting" ? nowText : progressAt;
  if (!isOver && !isRevert && now - Date.parse(continuedAt) >= policy.progressDeadlineMs) {
    const message = `no more tasks became healthy within ${policy.progressDeadlineMs / 1000}s`;
    return { ...idle, phase: "failed", reason: "ProgressDeadlineExceeded", message };
  }
  return {
    progressAt: continuedAt,
    phase: isOver ? "completed" : "progressing",
    reason: isOver ? "Completed" : "Progressing",
    start: startable(observed, entries, candidates, isOver),
    removeSurplus: isOver ? surplus.total : isDone ? Math.max(policy.maxParallel - surplus.deleting, 0) : 0,
  };
}

/** Copies that can be updated: the unavailable ones first, as stopping them costs nothing. */
function candidatesOf({ revision, stable, copies }: RolloutObservation, { list }: Entries, isOver: boolean): readonly Copy[] {
  const known = new Set(list.map(({ task }) => task));
  return copies
    .filter((copy) => {
      if (copy.revision === revision || copy.isOffline || copy.isDeleting || known.has(copy.key)) return false;
      return copy.revision !== undefined || (!isOver && revision !== stable && !copy.isInStable);
    })
    .sort((a, b) => a.wave - b.wave || rank(a) - rank(b) || (a.key < b.key ? -1 : 1));
}

const rank = (copy: Copy): number => (copy.revision !== undefined && copy.condition === "available" ? 1 : 0);

/** Number of copies that are updated before the promotion; undefined: unlimited. */
function canaryLimit({ policy, isPromoted, isRevert }: RolloutObservation, isOver: boolean): number | undefined {
  return isOver || isRevert || isPromoted || policy.canary === 0 ? undefined : policy.canary;
}

function updatedCount({ copies, revision }: RolloutObservation, { list }: Entries): number {
  const updating = new Set(list.map(({ task }) => task));
  return copies.filter((copy) => copy.revision === revision || updating.has(copy.key)).length;
}

/** Why no further copy is updated. */
function holdOf(
  observed: RolloutObservation,
  entries: Entries,
  candidates: readonly Copy[],
  isOver: boolean,
): { readonly reason: string; readonly message: string } | undefined {
  const { isPaused, isRevert, window, surplus, policy } = observed;
  if (candidates.length === 0 && (isOver || surplus.total === 0)) return undefined;
  if (isPaused) return { reason: "Paused", message: "paused: spec.paused is true" };
  const unhealthy = entries.unhealthy.length;
  if (isOver && !isRevert && unhealthy > policy.maxUnhealthy) {
    const message = `${unhealthy} tasks of robots that returned are unhealthy, at most ${policy.maxUnhealthy} allowed: the others keep their revision`;
    return { reason: "UnhealthyTasks", message };
  }
  const limit = canaryLimit(observed, isOver);
  if (limit !== undefined && entries.active.length === 0 && updatedCount(observed, entries) >= limit) {
    return {
      reason: "AwaitingPromotion",
      message: `waits for the promotion of ${limit} ${limit === 1 ? "canary" : "canaries"}`,
    };
  }
  if (isRevert || window.kind === "open") return undefined;
  const { opensAtMs, problem } = window;
  const opens = opensAtMs === undefined ? "which never opens" : `which opens at ${new Date(opensAtMs).toISOString()}`;
  return { reason: "OutsideMaintenanceWindow", message: `waiting for a maintenance window, ${problem ?? opens}` };
}

function startable(
  observed: RolloutObservation,
  entries: Entries,
  candidates: readonly Copy[],
  isOver: boolean,
): readonly Copy[] {
  const { policy, copies, isRevert } = observed;
  const down = downCopies(observed, entries, candidates).length;
  const limit = canaryLimit(observed, isOver);
  const canaries = limit === undefined ? Number.POSITIVE_INFINITY : limit - updatedCount(observed, entries);
  const slots = Math.max(Math.min(policy.maxParallel - entries.active.length - down, canaries), 0);
  if (isRevert) return candidates.slice(0, slots);
  const active = new Set(entries.active.map(({ task }) => task));
  const waves = [...candidates, ...copies.filter(({ key }) => active.has(key))].map(({ wave }) => wave);
  const wave = Math.min(...waves);
  return candidates.filter((candidate) => candidate.wave === wave).slice(0, slots);
}

/**
 * Copies that are being deleted or created, for another reason or by an earlier rollout. They take slots, but a robot that does not confirm
 * the end of a task only does so until the health deadline.
 */
function downCopies(
  { copies, policy, now }: RolloutObservation,
  { list }: Entries,
  candidates: readonly Copy[],
): readonly Copy[] {
  const others = new Set([...list.map(({ task }) => task), ...candidates.map(({ key }) => key)]);
  return copies.filter((copy) => {
    if (copy.isOffline || others.has(copy.key)) return false;
    if (copy.revision === undefined) return true;
    return copy.isDeleting && now < (copy.deletedAtMs ?? now) + policy.healthyDeadlineMs;
  });
}

function countsOf({ copies, revision }: RolloutObservation, updating: ReadonlySet<string>, unhealthy: number): RolloutCounts {
  const updated = copies.filter((copy) => copy.revision === revision);
  return {
    total: copies.length,
    updated: updated.length,
    healthy: updated.filter(({ key, condition }) => condition !== "failed" && !updating.has(key)).length,
    unhealthy,
    offline: copies.filter((copy) => copy.isOffline && copy.revision !== revision).length,
  };
}

/** When the decision can change without an event. */
function nextTimeOf(
  { copies, policy, isRevert, window, revision, now }: RolloutObservation,
  updating: readonly Entry[],
  { phase, reason, progressAt }: Outcome,
): number | undefined {
  const times: number[] = [];
  const byKey = new Map(copies.map((copy) => [copy.key, copy]));
  for (const { task, since, isOffline, problem } of updating) {
    const copy = byKey.get(task);
    if (isOffline === true || copy === undefined) continue;
    if (copy.revision === revision && copy.availableAtMs !== undefined) times.push(copy.availableAtMs);
    if (problem === undefined) times.push(Date.parse(since) + policy.healthyDeadlineMs);
  }
  for (const { isDeleting, isOffline, deletedAtMs } of copies) {
    const dueMs = (deletedAtMs ?? now) + policy.healthyDeadlineMs;
    if (isDeleting && !isOffline && dueMs > now && phase === "progressing") times.push(dueMs);
  }
  if (phase === "progressing" && !isRevert) times.push(Date.parse(progressAt) + policy.progressDeadlineMs);
  if (reason === "OutsideMaintenanceWindow" && window.kind === "closed" && window.opensAtMs !== undefined) {
    times.push(window.opensAtMs);
  }
  return times.length === 0 ? undefined : Math.min(...times);
}
