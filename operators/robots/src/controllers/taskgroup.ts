import { type DeepReadonly, draft, isNotFound } from "@keelson/api-machinery";
import { defineController, ignoreConflict, type ReconcileContext, type Request, watchOf } from "@keelson/controller";
import { isPerRobot } from "../api/job.ts";
import { Task } from "../api/task.ts";
import { TaskGroup } from "../api/taskgroup.ts";
import { Robot } from "../api/robot.ts";
import { affectsPlacement } from "./task-watches.ts";
import { taskReads } from "./indexes.ts";
import { controllerReference } from "../work/owner.ts";
import { decideTaskGroup, type TaskDraft } from "./taskgroup-decision.ts";

const fieldManager = "robots-taskgroup-controller";
const maxConcurrentWrites = 8;

/** Creates the Tasks of a TaskGroup and aggregates their status. */
export const taskGroupController = defineController({
  name: "robots-taskgroup",
  for: TaskGroup,
  owns: [Task],
  reads: [taskReads],
  // A group of type system or sysbatch has a Task for every eligible robot.
  watches: [watchOf(Robot, perRobotGroups, [affectsPlacement])],
  maxConcurrentReconciles: 4,
  reconcile,
});

function perRobotGroups(robot: DeepReadonly<Robot>, { cache }: Pick<ReconcileContext, "cache">): Request[] {
  const { namespace } = robot.metadata;
  return cache
    .list(TaskGroup, { namespace })
    .filter((group) => isPerRobot(group.spec.type))
    .map((group) => ({ namespace, name: group.metadata.name ?? "" }));
}

async function reconcile(request: Request, context: ReconcileContext): Promise<void> {
  const { cache, client, clock, signal } = context;
  const group = cache.get(TaskGroup, request);
  if (group === undefined) return;
  const { namespace, name } = request;
  const decision = decideTaskGroup({
    group,
    tasks: cache.list(Task, { namespace, index: ["controller", group.metadata.uid ?? ""] }),
    taskNamed: (task) => cache.get(Task, { namespace, name: task }),
    robots: isPerRobot(group.spec.type) ? cache.list(Robot, { namespace }) : [],
    now: clock.now(),
  });
  // Children first: after a crash, a status without them would hide that they are missing.
  for (let start = 0; start < decision.create.length; start += maxConcurrentWrites) {
    await Promise.all(decision.create.slice(start, start + maxConcurrentWrites).map((task) => applyTask(group, task, context)));
  }
  for (const task of decision.remove) {
    try {
      await client.delete(Task, { namespace, name: task }, { propagationPolicy: "Background", signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
  if (decision.status === undefined) return;
  await ignoreConflict(
    client.applyStatus(
      TaskGroup,
      { metadata: { name, namespace, resourceVersion: group.metadata.resourceVersion }, status: decision.status },
      { fieldManager, signal },
    ),
  );
}

async function applyTask(group: DeepReadonly<TaskGroup>, task: TaskDraft, context: ReconcileContext): Promise<void> {
  await context.client.apply(
    Task,
    {
      metadata: {
        name: task.name,
        namespace: group.metadata.namespace,
        labels: { ...task.labels },
        ownerReferences: [controllerReference(TaskGroup, group)],
      },
      spec: draft(task.spec),
    },
    { fieldManager, signal: context.signal },
  );
}
