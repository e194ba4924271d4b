import type { ConditionClaim } from "./conditions.ts";

/** Task counts by state. They add up to `total`. */
export interface Tally {
  readonly total: number;
  readonly pending: number;
  readonly running: number;
  readonly succeeded: number;
  readonly failed: number;
  /** RFC 3339: the earliest start and the latest end. */
  readonly startedAt?: string;
  readonly completedAt?: string;
}

/** State of a TaskGroup or a Job. */
export type WorkState = "pending" | "running" | "completed" | "failed";

/** The tally of no tasks. */
export const emptyTally: Tally = { total: 0, pending: 0, running: 0, succeeded: 0, failed: 0 };

/** Adds two tallies. */
export function addTallies(a: Tally, b: Tally): Tally {
  const startedAt = pick(a.startedAt, b.startedAt, (x, y) => Date.parse(x) <= Date.parse(y));
  const completedAt = pick(a.completedAt, b.completedAt, (x, y) => Date.parse(x) >= Date.parse(y));
  return {
    total: a.total + b.total,
    pending: a.pending + b.pending,
    running: a.running + b.running,
    succeeded: a.succeeded + b.succeeded,
    failed: a.failed + b.failed,
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
  return `${tally.total} ${tally.total === 1 ? "task" : "tasks"}${counts.length > 0 ? `: ${counts.join(", ")}` : ""}`;
}

/** Conditions `Completed` and `Failed`, so that `kubectl wait --for=condition=Completed` works. */
export function outcomeConditions(tally: Tally, state: WorkState, generation: number): ConditionClaim[] {
  const message = describe(tally);
  const claim = (type: string, isTrue: boolean, reason: string): ConditionClaim => ({
    type,
    status: isTrue ? "True" : "False",
    observedGeneration: generation,
    reason,
    message,
  });
  return [
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
