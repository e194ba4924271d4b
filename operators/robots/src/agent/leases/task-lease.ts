import type { LeasedTask } from "../../protocol/messages.ts";
import {
  type AgentEffect,
  type AgentEvent,
  type AgentState,
  change,
  type HeldTask,
  type Step,
  type TaskLease,
} from "../held-task.ts";

/** Time before the end of the lease at which the program is stopped, so that it has ended by then. */
function stopBeforeMs({ durationMs, graceMs }: TaskLease): number {
  return Math.min(graceMs + 1_000, durationMs / 2);
}

/** Whether the program may run. */
function isValid(lease: TaskLease, bootId: string, bootMs: number): boolean {
  return lease.held?.bootId === bootId && bootMs < lease.held.untilMs - stopBeforeMs(lease);
}

/** The lease of a task that runs, or waits for its lease. */
function activeLease(task: HeldTask): TaskLease | undefined {
  const isActive = task.phase === "accepted" || task.phase === "running";
  return isActive && task.lease?.isFenced !== true ? task.lease : undefined;
}

/** The attempts to request leases for, and how long to wait between two requests. */
export function leaseDemand(state: AgentState): { readonly tasks: readonly LeasedTask[]; readonly intervalMs: number } {
  let intervalMs = Number.POSITIVE_INFINITY;
  const tasks: LeasedTask[] = [];
  for (const task of state.tasks.values()) {
    const lease = activeLease(task);
    if (lease === undefined) continue;
    tasks.push({ taskUid: task.uid, attempt: task.attempt });
    intervalMs = Math.min(intervalMs, lease.held === undefined ? waitingIntervalMs : lease.durationMs / 3);
  }
  return { tasks, intervalMs };
}

/** Interval of requests for a program that has not started yet. */
const waitingIntervalMs = 2_000;

/**
 * Applies the server's answer. A lease counts from when it was requested, so that it ends here before it ends for the server. The first
 * grant starts the program. `remove` handles attempts that are no longer this robot's.
 */
export function leaseAnswered(
  state: AgentState,
  { granted, refused, requestedAtMs, bootMs }: AgentEvent & { readonly kind: "lease-answer" },
  remove: (state: AgentState, task: LeasedTask) => Step,
): Step {
  let next = state;
  const effects: AgentEffect[] = [];
  const apply = (step: Step): void => {
    next = step.state;
    effects.push(...step.effects);
  };
  for (const task of granted) apply(grant(next, task, { requestedAtMs, bootMs }));
  for (const task of refused) {
    const held = next.tasks.get(task.taskUid);
    if (held !== undefined && held.attempt === task.attempt && activeLease(held) !== undefined) apply(remove(next, task));
  }
  return { state: next, effects };
}

function grant(
  state: AgentState,
  { taskUid: uid, attempt }: LeasedTask,
  { requestedAtMs, bootMs }: { readonly requestedAtMs: number; readonly bootMs: number },
): Step {
  const task = state.tasks.get(uid);
  const before = task === undefined || task.attempt !== attempt ? undefined : activeLease(task);
  if (task === undefined || before === undefined) return { state, effects: [] };
  const { bootId } = state;
  const lease: TaskLease = { ...before, held: { bootId, untilMs: requestedAtMs + before.durationMs } };
  if (!isValid(lease, bootId, bootMs)) return { state, effects: [] };
  const isLater = before.held?.bootId !== bootId || before.held.untilMs < requestedAtMs + before.durationMs;
  if (!isLater) return { state, effects: [] };
  const { order } = task;
  const isFirst = before.held === undefined && task.phase === "accepted";
  return change(state, { ...task, lease }, () =>
    isFirst && order !== undefined
      ? [{ kind: "start", uid, attempt: task.programAttempt ?? attempt, ...runOf(task), order }]
      : [],
  );
}

/** Stops programs whose lease is about to expire. */
export function checkLeases(state: AgentState, bootMs: number): Step {
  let next = state;
  const effects: AgentEffect[] = [];
  for (const task of state.tasks.values()) {
    const lease = activeLease(task);
    if (lease?.held === undefined || isValid(lease, state.bootId, bootMs)) continue;
    const { uid, programAttempt = task.attempt } = task;
    // After a suspension, less time is left, or none.
    const remainingMs = lease.held.bootId === state.bootId ? lease.held.untilMs - bootMs : 0;
    const graceMs = Math.max(Math.min(stopBeforeMs(lease), remainingMs) - 1_000, 0);
    const step = change(next, { ...task, lease: { ...lease, isFenced: true } }, () => [
      { kind: "stop", uid, attempt: programAttempt, ...runOf(task), graceMs },
    ]);
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

const runOf = ({ run }: HeldTask): { readonly run?: number } => (run === undefined ? {} : { run });

/** A task that waits for its lease again: its program has not started. */
export function withoutGrant(task: HeldTask): HeldTask {
  if (task.lease === undefined) return task;
  const { durationMs, graceMs } = task.lease;
  return { ...task, lease: { durationMs, graceMs } };
}
