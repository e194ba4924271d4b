import type { DeepReadonly } from "@keelson/api-machinery";
import type { ChangeTask, Plan } from "../../api/app.ts";
import { hashOf } from "../../plugin/render-group.ts";

/** Reason of a task that a user cancelled in an earlier plan. It is not applied unless it is retried. */
export const suppressed = "suppressed";

const changeOf = ({ type, targetComponent, desiredSpec }: DeepReadonly<ChangeTask>): string =>
  hashOf([type, targetComponent, desiredSpec]);

/**
 * Marks planned tasks that a user cancelled in the previous plan: an edit of something else must not apply them. They are applied when they are
 * retried, or when the spec asks for another value. `completedAt`: undefined in a preview.
 */
export function suppressTasks(
  tasks: readonly ChangeTask[],
  previous: DeepReadonly<Plan> | undefined,
  completedAt: string | undefined,
): ChangeTask[] {
  const cancelled = new Map(
    (previous?.tasks ?? []).filter(({ status }) => status === "cancelled").map((task) => [changeOf(task), task]),
  );
  const isSuppressed = (task: ChangeTask): boolean => cancelled.has(changeOf(task));
  const ids = new Set(tasks.filter(isSuppressed).map(({ taskId }) => taskId));
  return tasks.map((task) => {
    const dependencies = task.dependencies.filter((id) => !ids.has(id));
    if (!isSuppressed(task)) return { ...task, dependencies };
    const error = `cancelled as ${cancelled.get(changeOf(task))?.taskId ?? ""}; retry it to apply it`;
    return {
      ...task,
      dependencies,
      status: "cancelled" as const,
      reason: suppressed,
      error,
      ...(completedAt === undefined ? {} : { completedAt }),
    };
  });
}
