import type { ConditionClaim } from "./conditions.ts";

/** Task counts by state. They add up to `total`. */
export interface Tally {
  readonly total: number;
  readonly pending: number;
  readonly running: number;
  readonly succeeded: number;
  readonly failed: number;
  /** Number of pending or running tasks whose robot has stopped reporting. */
  readonly lost: number;
  /** RFC 3339: the earliest loss. */
  readonly lostSince?: string;
  /** RFC 3339: the earliest start and the latest end. */
  readonly startedAt?: string;
  readonly completedAt?: string;
}

/** State of a TaskGroup or a Job. */
export type WorkState = "pending" | "running" | "completed" | "failed";

/** The tally of no tasks. */
export const emptyTally: Tally = { total: 0, pending: 0, running: 0, succeeded: 0, failed: 0, lost: 0 };

/** Adds two tallies. */
export function addTallies(a: Tally, b: Tally): Tally {
  const startedAt = pick(a.startedAt, b.startedAt, (x, y) => Date.parse(x) <= Date.parse(y));
  const lostSince = pick(a.lostSince, b.lostSince, (x, y) => Date.parse(x) <= Date.parse(y));
  const completedAt = pick(a.completedAt, b.completedAt, (x, y) => Date.parse(x) >= Date.parse(y));
  return {
    total: a.total + b.total,
    pending: a.pending + b.pending,
    running: a.running + b.running,
    succeeded: a.succeeded + b.succeeded,
    failed: a.failed + b.failed,
    lost: a.lost + b.lost,
    ...(lostSince === undefined ? {} : { lostSince }),
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(completedAt === undefined ? {} : { completedAt }),
  };
}

function pick(a: string | undefined, b: string | undefined, isBetter: (a: string, b: string) => boolean): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return isBetter(a, b) ? a : b;
}

/**
 * The state that follows from a tally. Work ends only when every task has ended: if one failed task ended it, the others would
 * continue under work that is over.
 */
export function workStateOf(tally: Tally): WorkState {
  if (tally.total === 0) return "pending";
  if (tally.succeeded === tally.total) return "completed";
  if (tally.succeeded + tally.failed === tally.total) return "failed";
  return tally.running + tally.succeeded + tally.failed > 0 ? "running" : "pending";
}

/** Status fields that follow from a tally, for Jobs and TaskGroups. */
export function tallyFields(tally: Tally, state: WorkState) {
  const isOver = state === "completed" || state === "failed";
  return {
    totalTasks: tally.total,
    pendingTasks: tally.pending,
    runningTasks: tally.running,
    succeededTasks: tally.succeeded,
    failedTasks: tally.failed,
    ...(tally.lost === 0 ? {} : { lostTasks: tally.lost }),
    ...(tally.lostSince === undefined ? {} : { lostSince: tally.lostSince }),
    statusDescription: describe(tally),
    ...(tally.startedAt === undefined ? {} : { startedAt: tally.startedAt }),
    ...(isOver && tally.completedAt !== undefined ? { completedAt: tally.completedAt } : {}),
  };
}

function describe(tally: Tally): string {
  const parts = [
    [tally.succeeded, "succeeded"],
    [tally.failed, "failed"],
    [tally.running, "running"],
    [tally.pending, "pending"],
  ] as const;
  const counts = parts.filter(([count]) => count > 0).map(([count, state]) => `${count} ${state}`);
  const total = `${tally.total} ${tally.total === 1 ? "task" : "tasks"}${counts.length > 0 ? `: ${counts.join(", ")}` : ""}`;
  return tally.lost === 0 ? total : `${total}; ${describeLost(tally)}`;
}

function describeLost({ lost, lostSince }: Tally): string {
  const since = lostSince === undefined ? "" : ` since ${lostSince}`;
  return `${lost} unknown${since} because ${lost === 1 ? "its robot has" : "their robots have"} stopped reporting; the message of each task says whether it moves`;
}

/** Conditions `Completed` and `Failed`, so that `kubectl wait --for=condition=Completed` works. */
export function outcomeConditions(tally: Tally, state: WorkState, generation: number, wasLost: boolean): ConditionClaim[] {
  const message = describe(tally);
  const claim = (type: string, isTrue: boolean, reason: string): ConditionClaim => ({
    type,
    status: isTrue ? "True" : "False",
    observedGeneration: generation,
    reason,
    message,
  });
  // Absent until a task is lost for the first time.
  const lost: readonly ConditionClaim[] =
    tally.lost > 0
      ? [{ ...claim("Lost", true, "RobotsNotReporting"), message: describeLost(tally) }]
      : wasLost
        ? [claim("Lost", false, "RobotsReporting")]
        : [];
  return [
    ...lost,
    claim(
      "Completed",
      state === "completed",
      state === "completed" ? "AllTasksSucceeded" : state === "failed" ? "TasksFailed" : "InProgress",
    ),
    claim(
      "Failed",
      state === "failed",
      state === "failed" ? "TasksFailed" : state === "completed" ? "AllTasksSucceeded" : "InProgress",
    ),
  ];
}
