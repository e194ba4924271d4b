import type { ChangeTask, Plan } from "../../api/app.ts";
import { endTask, setDeadline } from "./advance-plan.ts";
import { suppressed } from "./suppress-tasks.ts";

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
        endTask(task, "cancelled", now, "cancelled");
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

/**
 * Makes finished tasks pending again at a user's request. With `isApprovalManual`, the plan waits for approval if one of them was suppressed: no
 * approval of the plan covered it. Mutates `plan`.
 */
export function retryTasks(
  plan: Plan,
  ids: readonly string[],
  resetDependencies: boolean,
  isCurrent: boolean,
  isApprovalManual = false,
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
      if (isApprovalManual && each.reason === suppressed) plan.approval = "Required";
      each.status = "pending";
      each.retryCount = 0;
      for (const field of ["reason", "error", "errorClass", "completedAt", "startedAt", "revert", "retryAt"] as const)
        delete each[field];
    }
    delete plan.finishedAt;
    delete plan.outcome;
    delete plan.report;
    return { taskId, result: "pending" };
  });
}
