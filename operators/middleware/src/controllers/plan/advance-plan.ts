import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime, parseDuration } from "@keelson/api-machinery/time";
import type { AppStatus, ChangeTask, Plan, TaskState } from "../../api/app.ts";
import type { Component } from "../../api/component.ts";
import type { ErrorClass, Operation } from "../../api/parts.ts";
import { outcomeOf, reportOf } from "./plan-report.ts";
import { suppressed } from "./suppress-tasks.ts";

/** Allowed transitions between task states. Any other transition is a bug. */
export const transitions: Readonly<Record<TaskState, readonly TaskState[]>> = {
  pending: ["in_progress", "cancelled", "skipped"],
  in_progress: ["done", "retry_pending", "failed", "cancelling"],
  retry_pending: ["in_progress", "cancelled", "skipped"],
  cancelling: ["cancelled", "done", "failed"],
  failed: ["pending"],
  skipped: ["pending"],
  cancelled: ["pending"],
  done: [],
};

/** Whether a state is final. */
const isTerminal = (state: TaskState): boolean => ["done", "failed", "skipped", "cancelled"].includes(state);

/** Error classes that a retry cannot fix. */
const permanentErrors: readonly ErrorClass[] = ["Config", "Forbidden", "Insufficient"];

/** Exponential backoff between attempts. */
const maxRetryBackoffMs = 60_000;

/** How a plan advances. */
export interface AdvancePolicy {
  readonly onFailure: "stop" | "skip-dependents";
  /** Whether a newer spec waits for the plan. */
  readonly isSuperseded: boolean;
  /** Whether no task starts, and the deadlines of running ones are suspended. */
  readonly isPaused: boolean;
  /** Time before the first retry. It doubles with each one. */
  readonly retryBackoffMs: number;
}

/** An advanced plan. */
export interface PlanStep {
  readonly plan: Plan;
  /** The nearest deadline. */
  readonly dueMs: number | undefined;
}

/**
 * Advances a plan by the state of its Components. Pure. A task is done only when its Component reports success for the task's
 * token and generation. A completion wins over a timeout observed at the same time.
 */
export function advancePlan(
  plan: DeepReadonly<Plan>,
  components: ReadonlyMap<string, DeepReadonly<Component>>,
  policy: AdvancePolicy,
  now: number,
): PlanStep {
  const tasks = plan.tasks.map((task) => ({ ...task })) as ChangeTask[];
  const isHeld = policy.isPaused || plan.approval === "Required";
  for (const task of tasks) {
    const answer = answerOf(task, components);
    if (answer?.disruptions !== undefined) task.observed = answer.disruptions;
    advanceTask(task, answer, { now, planId: plan.id, isPaused: policy.isPaused, retryBackoffMs: policy.retryBackoffMs });
  }
  skipAfterFailure(tasks, policy, now);
  const open = tasks.filter((task) => !isTerminal(task.status));
  const stage = Math.min(...open.map((task) => task.stage));
  for (const task of open) {
    if (task.stage !== stage || isHeld) continue;
    const isFree = task.dependencies.every((id) => tasks.find((each) => each.taskId === id)?.status === "done");
    if (task.status === "pending" && isFree) start(task, plan.id, now);
    else if (task.status === "retry_pending" && Date.parse(task.retryAt ?? "") <= now) start(task, plan.id, now);
  }
  const dues = tasks.flatMap((task) => {
    if (task.status === "cancelling") return [task.deadlineAt];
    if (isHeld) return [];
    return task.status === "retry_pending" ? [task.retryAt] : task.status === "in_progress" ? [task.deadlineAt] : [];
  });
  const due = dues.reduce<number | undefined>((least, text) => {
    const at = Date.parse(text ?? "");
    return Number.isNaN(at) || (least !== undefined && least <= at) ? least : at;
  }, undefined);
  const isOver = tasks.every((task) => isTerminal(task.status));
  return {
    plan: {
      ...(plan as Plan),
      tasks,
      ...(isOver ? { finishedAt: formatTime(now), outcome: outcomeOf(tasks), report: reportOf(tasks) } : {}),
    },
    dueMs: isOver ? undefined : due,
  };
}

/** Extends the deadlines of running tasks by the time that they were paused. Mutates `tasks`. */
export function extendDeadlines(tasks: readonly ChangeTask[], pausedMs: number): void {
  for (const task of tasks) {
    const at = Date.parse(task.deadlineAt ?? "");
    if (task.status === "in_progress" && !Number.isNaN(at))
      task.deadlineAt = new Date(at + Math.max(pausedMs, 0)).toISOString();
  }
}

/** The Component's operation for the token of a task; undefined until the Component has observed it. */
function answerOf(
  task: ChangeTask,
  components: ReadonlyMap<string, DeepReadonly<Component>>,
): DeepReadonly<Operation> | undefined {
  const component = components.get(task.targetComponent);
  const operation = component?.status?.operation;
  if (task.token === undefined || operation?.token !== task.token || component?.spec.operation?.token !== task.token)
    return undefined;
  return (component.status?.observedGeneration ?? 0) >= (component.metadata.generation ?? 0) ? operation : undefined;
}

/** What a failure needs to know. */
interface FailureContext {
  readonly now: number;
  readonly planId: string;
  readonly retryBackoffMs: number;
}

function advanceTask(
  task: ChangeTask,
  answer: DeepReadonly<Operation> | undefined,
  { isPaused, ...context }: FailureContext & { readonly isPaused: boolean },
): void {
  const { now, planId } = context;
  const isLate = task.deadlineAt !== undefined && now >= Date.parse(task.deadlineAt);
  if (task.status === "in_progress") {
    if (answer?.phase === "Succeeded") endTask(task, "done", now);
    else if (answer?.phase === "Failed" || answer?.phase === "Cancelled") {
      // A revert restarts Pods, so it waits until the changes are resumed.
      if (isPaused && task.baseSpec !== undefined) return;
      fail(task, answer.errorClass ?? "Unknown", answer.message ?? "failed", answer.pointOfNoReturn ?? false, context);
    } else if (isLate && !isPaused) {
      task.status = "cancelling";
      task.reason = "timeout";
      task.errorClass = "Timeout";
      task.error = `not finished within ${task.timeout}${answer?.message ? `: ${answer.message}` : ""}`;
      setDeadline(task, now);
    }
    return;
  }
  if (task.status !== "cancelling") return;
  if (task.revert) {
    if (answer?.phase === "Succeeded") endCancelled(task, now);
    else if (answer?.phase === "Failed" || isLate)
      endTask(task, "failed", now, "partial", `could not revert: ${answer?.message ?? "timed out"}`);
    return;
  }
  if (answer?.phase === "Succeeded") {
    // The operation finished before the cancel arrived.
    delete task.error;
    delete task.errorClass;
    endTask(task, "done", now);
  } else if (answer?.phase === "Cancelled" || answer?.phase === "Failed") {
    if (answer.pointOfNoReturn)
      endTask(task, "failed", now, "partial", task.error ?? `could no longer be reverted: ${answer.message ?? ""}`);
    else revert(task, planId, now);
  } else if (isLate)
    endTask(task, "failed", now, "unknown", `${task.error ?? "cancelled"}; the Component did not respond to the cancel`);
}

/** Reverts a task to its base spec. A provisioned Component has none and is kept. */
function revert(task: ChangeTask, planId: string, now: number): void {
  if (task.baseSpec === undefined) {
    endCancelled(task, now);
    return;
  }
  task.status = "cancelling";
  task.revert = true;
  task.token = `${planId}/${task.taskId}/${task.attempt}/revert`;
  setDeadline(task, now);
}

function endCancelled(task: ChangeTask, now: number): void {
  if (task.errorClass === undefined) endTask(task, "cancelled", now, task.reason ?? "cancelled");
  else endTask(task, "failed", now, task.reason ?? task.errorClass, task.error);
}

/** Ends a task. Mutates it. */
export function endTask(task: ChangeTask, status: TaskState, now: number, reason?: string, error?: string): void {
  task.status = status;
  task.completedAt = formatTime(now);
  if (reason !== undefined) task.reason = reason;
  else delete task.reason;
  if (error !== undefined) task.error = error;
  delete task.retryAt;
  delete task.deadlineAt;
}

function fail(
  task: ChangeTask,
  errorClass: ErrorClass,
  message: string,
  isPartial: boolean,
  { now, planId, retryBackoffMs }: FailureContext,
): void {
  task.errorClass = errorClass;
  task.error = message;
  if (!permanentErrors.includes(errorClass) && task.retryCount < task.maxRetries) {
    task.retryCount += 1;
    task.status = "retry_pending";
    task.retryAt = new Date(now + Math.min(retryBackoffMs * 2 ** (task.retryCount - 1), maxRetryBackoffMs)).toISOString();
    delete task.deadlineAt;
    return;
  }
  task.reason = errorClass;
  if (isPartial || task.baseSpec === undefined) endTask(task, "failed", now, isPartial ? "partial" : errorClass, message);
  else revert(task, planId, now);
}

function start(task: ChangeTask, planId: string, now: number): void {
  task.status = "in_progress";
  task.attempt += 1;
  task.token = `${planId}/${task.taskId}/${task.attempt}`;
  task.startedAt = formatTime(now);
  delete task.retryAt;
  delete task.completedAt;
  delete task.reason;
  delete task.error;
  delete task.errorClass;
  delete task.revert;
  setDeadline(task, now);
}

/** Gives a task its whole timeout from now. Mutates it. */
export function setDeadline(task: ChangeTask, now: number): void {
  task.deadlineAt = new Date(now + parseDuration(task.timeout)).toISOString();
}

function skipAfterFailure(tasks: ChangeTask[], policy: AdvancePolicy, now: number): void {
  const isUnsuccessful = (task: ChangeTask): boolean =>
    ["failed", "cancelled", "skipped"].includes(task.status) && task.reason !== suppressed;
  const isWaiting = (task: ChangeTask): boolean => task.status === "pending" || task.status === "retry_pending";
  for (let hasChanged = true; hasChanged; ) {
    hasChanged = false;
    for (const task of tasks.filter(isWaiting)) {
      const cause =
        policy.onFailure === "stop"
          ? tasks.find((other) => other.stage <= task.stage && isUnsuccessful(other))
          : tasks.find((other) => task.dependencies.includes(other.taskId) && isUnsuccessful(other));
      if (cause === undefined) continue;
      endTask(task, "skipped", now, policy.isSuperseded ? "superseded" : `${cause.taskId} is ${cause.status}`);
      hasChanged = true;
    }
  }
}

/** Whether a plan waits for a user's approval. */
export function isAwaitingApproval(plan: DeepReadonly<Plan> | undefined): boolean {
  return plan?.approval === "Required" && plan.finishedAt === undefined;
}

/** Whether a plan is active. */
export function hasActivePlan(status: DeepReadonly<AppStatus> | undefined): boolean {
  return status?.plan !== undefined && status.plan.finishedAt === undefined;
}
