import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime, parseDuration } from "@keelson/api-machinery/time";
import type { AppStatus, ChangeTask, Plan, TaskState } from "../api/app.ts";
import type { Component } from "../api/component.ts";
import type { ErrorClass, Operation } from "../api/parts.ts";

/** Which state may follow which; any other step is a bug. */
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

/** States in which nothing happens any more. */
export const isTerminal = (state: TaskState): boolean => ["done", "failed", "skipped", "cancelled"].includes(state);

/** Failures that another try cannot mend. */
const hopeless: readonly ErrorClass[] = ["Config", "Forbidden", "Insufficient"];

/** Waits between attempts: the base doubled each time, at most this. */
const longestBackoffMs = 60_000;
const retryBackoffMs = 1_000;

/** How a plan goes on. */
export interface PlanStep {
  readonly plan: Plan;
  /** When to look again, should nothing happen before. */
  readonly dueMs: number | undefined;
}

/**
 * Moves a plan on by what its Components say. Pure. A task is done only when its Component answers its very token for the
 * generation that carries it; a completion wins over a timeout seen at the same time.
 */
export function stepPlan(
  plan: DeepReadonly<Plan>,
  components: ReadonlyMap<string, DeepReadonly<Component>>,
  policy: { readonly onFailure: "stop" | "skip-dependents"; readonly isSuperseded: boolean },
  now: number,
): PlanStep {
  const tasks = plan.tasks.map((task) => ({ ...task })) as ChangeTask[];
  for (const task of tasks) stepTask(task, answerOf(task, components), now, plan.id);
  stopAfterTrouble(tasks, policy, now);
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

/** What the Component says to the token of a task; undefined while it has not answered that. */
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

function stepTask(task: ChangeTask, answer: DeepReadonly<Operation> | undefined, now: number, planId: string): void {
  const isLate = task.deadlineAt !== undefined && now >= Date.parse(task.deadlineAt);
  if (task.status === "in_progress") {
    if (answer?.phase === "Succeeded") end(task, "done", now);
    else if (answer?.phase === "Failed" || answer?.phase === "Cancelled") {
      fail(task, answer.errorClass ?? "Unknown", answer.message ?? "failed", answer.pointOfNoReturn ?? false, now, planId);
    } else if (isLate) {
      task.status = "cancelling";
      task.reason = "timeout";
      task.errorClass = "Timeout";
      task.error = `not done within ${task.timeout}${answer?.message ? `: ${answer.message}` : ""}`;
      setDeadline(task, now);
    }
    return;
  }
  if (task.status !== "cancelling") return;
  if (task.revert) {
    if (answer?.phase === "Succeeded") endCancelled(task, now);
    else if (answer?.phase === "Failed" || isLate)
      end(task, "failed", now, "partial", `could not go back: ${answer?.message ?? "it took too long"}`);
    return;
  }
  if (answer?.phase === "Succeeded") {
    // It was done before the cancel got there.
    delete task.error;
    delete task.errorClass;
    end(task, "done", now);
  } else if (answer?.phase === "Cancelled" || answer?.phase === "Failed") {
    if (answer.pointOfNoReturn)
      end(task, "failed", now, "partial", task.error ?? `it was too late to go back: ${answer.message ?? ""}`);
    else revert(task, planId, now);
  } else if (isLate)
    end(task, "failed", now, "unknown", `${task.error ?? "cancelled"}; its Component did not answer the cancel`);
}

/** Sends a task back to where it came from. What was provisioned has no before: it is left as it is. */
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
  if (!hopeless.includes(errorClass) && task.retryCount < task.maxRetries) {
    task.retryCount += 1;
    task.status = "retry_pending";
    task.retryAt = new Date(now + Math.min(retryBackoffMs * 2 ** (task.retryCount - 1), longestBackoffMs)).toISOString();
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

function stopAfterTrouble(tasks: ChangeTask[], policy: Parameters<typeof stepPlan>[2], now: number): void {
  const isTrouble = (task: ChangeTask): boolean => ["failed", "cancelled", "skipped"].includes(task.status);
  const isWaiting = (task: ChangeTask): boolean => task.status === "pending" || task.status === "retry_pending";
  for (let hasChanged = true; hasChanged; ) {
    hasChanged = false;
    for (const task of tasks.filter(isWaiting)) {
      const cause =
        policy.onFailure === "stop"
          ? tasks.find((other) => other.stage <= task.stage && isTrouble(other))
          : tasks.find((other) => task.dependencies.includes(other.taskId) && isTrouble(other));
      if (cause === undefined) continue;
      end(task, "skipped", now, policy.isSuperseded ? "superseded" : `${cause.taskId} is ${cause.status}`);
      hasChanged = true;
    }
  }
}

/** What came of a request for one task. */
export interface ControlResult {
  readonly taskId: string;
  readonly result: string;
}

/** Cancels tasks of a plan, as people ask for it. Changes `tasks`; answers what came of each. */
export function cancelTasks(tasks: ChangeTask[], ids: readonly string[], now: number): ControlResult[] {
  return ids.map((taskId) => {
    const task = tasks.find((each) => each.taskId === taskId);
    if (task === undefined) return { taskId, result: "refused: there is no such task in the plan" };
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
        return { taskId, result: "is already being cancelled" };
      default:
        return { taskId, result: `refused: it is ${task.status}` };
    }
  });
}

/** Makes ended tasks pending again, as people ask for it. Changes `plan`; answers what came of each. */
export function retryTasks(
  plan: Plan,
  ids: readonly string[],
  resetDependencies: boolean,
  isCurrent: boolean,
): ControlResult[] {
  const isRetryable = (task: ChangeTask): boolean => ["failed", "skipped", "cancelled"].includes(task.status);
  return ids.map((taskId) => {
    const task = plan.tasks.find((each) => each.taskId === taskId);
    if (task === undefined) return { taskId, result: "refused: there is no such task in the plan" };
    if (!isRetryable(task)) return { taskId, result: `refused: it is ${task.status}` };
    if (!isCurrent) return { taskId, result: "refused: the spec has changed since; the plan for it takes this up" };
    const blocked = plan.tasks.filter((other) => task.dependencies.includes(other.taskId) && isRetryable(other));
    if (blocked.length > 0 && !resetDependencies && !blocked.every((other) => ids.includes(other.taskId))) {
      return {
        taskId,
        result: `refused: ${blocked.map((other) => other.taskId).join(", ")} comes before; set resetDependencies`,
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

/** Whether a plan is under way. */
export function isBusy(status: DeepReadonly<AppStatus> | undefined): boolean {
  return status?.plan !== undefined && status.plan.finishedAt === undefined;
}
