import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime, parseDuration } from "@keelson/api-machinery/time";
import type { AppStatus, ChangeTask, Plan, TaskState } from "../../api/app.ts";
import type { Component } from "../../api/component.ts";
import type { ErrorClass, Operation } from "../../api/parts.ts";

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
const initialRetryBackoffMs = 1_000;

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
  policy: { readonly onFailure: "stop" | "skip-dependents"; readonly isSuperseded: boolean },
  now: number,
): PlanStep {
  const tasks = plan.tasks.map((task) => ({ ...task })) as ChangeTask[];
  for (const task of tasks) advanceTask(task, answerOf(task, components), now, plan.id);
  skipAfterFailure(tasks, policy, now);
  const open = tasks.filter((task) => !isTerminal(task.status));
  const stage = Math.min(...open.map((task) => task.stage));
  for (const task of open) {
    if (task.stage !== stage) continue;
    const isFree = task.dependencies.every((id) => tasks.find((each) => each.taskId === id)?.status === "done");
    if (task.status === "pending" && isFree) start(task, plan.id, now);
    else if (task.status === "retry_pending" && Date.parse(task.retryAt ?? "") <= now) start(task, plan.id, now);
  }
  const dues = tasks.flatMap((task) =>
    task.status === "retry_pending"
      ? [task.retryAt]
      : ["in_progress", "cancelling"].includes(task.status)
        ? [task.deadlineAt]
        : [],
  );
  const due = dues.reduce<number | undefined>((least, text) => {
    const at = Date.parse(text ?? "");
    return Number.isNaN(at) || (least !== undefined && least <= at) ? least : at;
  }, undefined);
  const isOver = tasks.every((task) => isTerminal(task.status));
  return {
    plan: {
      ...(plan as Plan),
      tasks,
      ...(isOver
        ? {
            finishedAt: formatTime(now),
            outcome: tasks.every((task) => task.status === "done")
              ? "Succeeded"
              : tasks.some((task) => task.status === "failed")
                ? "Failed"
                : "Cancelled",
          }
        : {}),
    },
    dueMs: isOver ? undefined : due,
  };
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

function advanceTask(task: ChangeTask, answer: DeepReadonly<Operation> | undefined, now: number, planId: string): void {
  const isLate = task.deadlineAt !== undefined && now >= Date.parse(task.deadlineAt);
  if (task.status === "in_progress") {
    if (answer?.phase === "Succeeded") end(task, "done", now);
    else if (answer?.phase === "Failed" || answer?.phase === "Cancelled") {
      fail(task, answer.errorClass ?? "Unknown", answer.message ?? "failed", answer.pointOfNoReturn ?? false, now, planId);
    } else if (isLate) {
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
      end(task, "failed", now, "partial", `could not revert: ${answer?.message ?? "timed out"}`);
    return;
  }
  if (answer?.phase === "Succeeded") {
    // The operation finished before the cancel arrived.
    delete task.error;
    delete task.errorClass;
    end(task, "done", now);
  } else if (answer?.phase === "Cancelled" || answer?.phase === "Failed") {
    if (answer.pointOfNoReturn)
      end(task, "failed", now, "partial", task.error ?? `could not be reverted any more: ${answer.message ?? ""}`);
    else revert(task, planId, now);
  } else if (isLate)
    end(task, "failed", now, "unknown", `${task.error ?? "cancelled"}; the Component did not respond to the cancel`);
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
  if (task.errorClass === undefined) end(task, "cancelled", now, task.reason ?? "cancelled");
  else end(task, "failed", now, task.reason ?? task.errorClass, task.error);
}

function end(task: ChangeTask, status: TaskState, now: number, reason?: string, error?: string): void {
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
  now: number,
  planId: string,
): void {
  task.errorClass = errorClass;
  task.error = message;
  if (!permanentErrors.includes(errorClass) && task.retryCount < task.maxRetries) {
    task.retryCount += 1;
    task.status = "retry_pending";
    task.retryAt = new Date(
      now + Math.min(initialRetryBackoffMs * 2 ** (task.retryCount - 1), maxRetryBackoffMs),
    ).toISOString();
    delete task.deadlineAt;
    return;
  }
  task.reason = errorClass;
  if (isPartial || task.baseSpec === undefined) end(task, "failed", now, isPartial ? "partial" : errorClass, message);
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

function setDeadline(task: ChangeTask, now: number): void {
  task.deadlineAt = new Date(now + parseDuration(task.timeout)).toISOString();
}

function skipAfterFailure(tasks: ChangeTask[], policy: Parameters<typeof advancePlan>[2], now: number): void {
  const isUnsuccessful = (task: ChangeTask): boolean => ["failed", "cancelled", "skipped"].includes(task.status);
  const isWaiting = (task: ChangeTask): boolean => task.status === "pending" || task.status === "retry_pending";
  for (let hasChanged = true; hasChanged; ) {
    hasChanged = false;
    for (const task of tasks.filter(isWaiting)) {
      const cause =
        policy.onFailure === "stop"
          ? tasks.find((other) => other.stage <= task.stage && isUnsuccessful(other))
          : tasks.find((other) => task.dependencies.includes(other.taskId) && isUnsuccessful(other));
      if (cause === undefined) continue;
      end(task, "skipped", now, policy.isSuperseded ? "superseded" : `${cause.taskId} is ${cause.status}`);
      hasChanged = true;
    }
  }
}

/** Result of a cancel or retry request for one task. */
export interface ControlResult {
  readonly taskId: string;
  readonly result: string;
}

/** Cancels tasks at a user's request. Mutates `tasks`. */
export function cancelTasks(tasks: ChangeTask[], ids: readonly string[], now: number): ControlResult[] {
  return ids.map((taskId) => {
    const task = tasks.find((each) => each.taskId === taskId);
    if (task === undefined) return { taskId, result: "refused: task not found in the plan" };
    switch (task.status) {
      case "pending":
      case "retry_pending":
        end(task, "cancelled", now, "cancelled");
        return { taskId, result: "cancelled" };
      case "in_progress":
        task.status = "cancelling";
        task.reason = "cancelled";
        setDeadline(task, now);
        return { taskId, result: "cancelling" };
      case "cancelling":
        return { taskId, result: "already cancelling" };
      default:
        return { taskId, result: `refused: the task is ${task.status}` };
    }
  });
}

/** Makes finished tasks pending again at a user's request. Mutates `plan`. */
export function retryTasks(
  plan: Plan,
  ids: readonly string[],
  resetDependencies: boolean,
  isCurrent: boolean,
): ControlResult[] {
  const isRetryable = (task: ChangeTask): boolean => ["failed", "skipped", "cancelled"].includes(task.status);
  return ids.map((taskId) => {
    const task = plan.tasks.find((each) => each.taskId === taskId);
    if (task === undefined) return { taskId, result: "refused: task not found in the plan" };
    if (!isRetryable(task)) return { taskId, result: `refused: the task is ${task.status}` };
    if (!isCurrent) return { taskId, result: "refused: the spec has changed since; its new plan includes this change" };
    const blocked = plan.tasks.filter((other) => task.dependencies.includes(other.taskId) && isRetryable(other));
    if (blocked.length > 0 && !resetDependencies && !blocked.every((other) => ids.includes(other.taskId))) {
      return {
        taskId,
        result: `refused: ${blocked.map((other) => other.taskId).join(", ")} must be retried first; set resetDependencies`,
      };
    }
    for (const each of [task, ...(resetDependencies ? blocked : [])]) {
      each.status = "pending";
      each.retryCount = 0;
      for (const field of ["reason", "error", "errorClass", "completedAt", "startedAt", "revert", "retryAt"] as const)
        delete each[field];
    }
    delete plan.finishedAt;
    delete plan.outcome;
    return { taskId, result: "pending" };
  });
}

/** Whether a plan is active. */
export function hasActivePlan(status: DeepReadonly<AppStatus> | undefined): boolean {
  return status?.plan !== undefined && status.plan.finishedAt === undefined;
}
