import { type DeepReadonly, draft, isNotFound } from "@keelson/api-machinery";
import {
  type Cache,
  defineController,
  ignoreConflict,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { ControllerRevision } from "@keelson/api-machinery/kinds";
import { isPerRobot } from "../../api/job.ts";
import { Task } from "../../api/task.ts";
import { TaskGroup } from "../../api/taskgroup.ts";
import { Robot } from "../../api/robot.ts";
import { affectsPlacement } from "../tasks/task-watches.ts";
import { revisionReads, taskReads } from "../indexes.ts";
import type { GroupRollout } from "../../api/update-policy.ts";
import { revisionsOf } from "../../rollout/job-revision.ts";
import { byController, controllerReference } from "../../work/owner.ts";
import { taskGroupSpecOf } from "../../work/task-group-spec.ts";
import { decideTaskGroup, type TaskDraft } from "./taskgroup-decision.ts";

const fieldManager = "robots-taskgroup-controller";
const maxConcurrentWrites = 8;

/** Creates the Tasks of a TaskGroup and aggregates their status. */
export const taskGroupController = defineController({
  name: "robots-taskgroup",
  for: TaskGroup,
  owns: [Task],
  reads: [taskReads, revisionReads],
  // A group of type system or sysbatch has a Task for every eligible robot, and a rollout skips robots that are not online.
  watches: [watchOf(Robot, perRobotGroups, [affectsPlacement])],
  maxConcurrentReconciles: 4,
  reconcile,
});

function perRobotGroups(robot: DeepReadonly<Robot>, { cache }: Pick<ReconcileContext, "cache">): Request[] {
  const { namespace } = robot.metadata;
  return cache
    .list(TaskGroup, { namespace })
    .filter(({ spec, status }) => isPerRobot(spec.type) || hasOpenRollout(status?.rollout))
    .map((group) => ({ namespace, name: group.metadata.name ?? "" }));
}

function hasOpenRollout(rollout: DeepReadonly<GroupRollout> | undefined): boolean {
  return (
    rollout !== undefined && (rollout.phase !== "completed" || (rollout.offline ?? 0) > 0 || rollout.updating !== undefined)
  );
}

/** The group in the stable revision of its Job, if it is another one than the group's. */
function stableSpecOf(group: DeepReadonly<TaskGroup>, cache: Cache): DeepReadonly<TaskGroup["spec"]> | undefined {
  const { revision, rollout, jobName, groupName } = group.spec;
  if (rollout === undefined || rollout.stable === revision) return undefined;
  const [uid] = byController(group);
  if (uid === undefined) return undefined;
  const { namespace } = group.metadata;
  const stable = revisionsOf(cache.list(ControllerRevision, { namespace, index: ["controller", uid] })).findLast(
    ({ groupRevisions }) => groupRevisions[groupName] === rollout.stable,
  );
  const template = stable?.spec.taskGroups.find(({ name }) => name === groupName);
  return stable === undefined || template === undefined ? undefined : taskGroupSpecOf(jobName, stable.spec, template);
}

async function reconcile(request: Request, context: ReconcileContext): Promise<Result | undefined> {
  const { cache, client, clock, signal } = context;
  const group = cache.get(TaskGroup, request);
  if (group === undefined) return undefined;
  const { namespace, name } = request;
  const tasks = cache.list(Task, { namespace, index: ["controller", group.metadata.uid ?? ""] });
  const stable = stableSpecOf(group, cache);
  const decision = decideTaskGroup({
    group,
    tasks,
    ...(stable === undefined ? {} : { stable }),
    taskNamed: (task) => cache.get(Task, { namespace, name: task }),
    robots: isPerRobot(group.spec.type) || group.spec.revision !== undefined ? cache.list(Robot, { namespace }) : [],
    now: clock.now(),
  });
  // Children first: after a crash, a status without them would hide that they are missing.
  for (let start = 0; start < decision.create.length; start += maxConcurrentWrites) {
    await Promise.all(decision.create.slice(start, start + maxConcurrentWrites).map((task) => applyTask(group, task, context)));
  }
  const uids = new Map(tasks.map(({ metadata }) => [metadata.name, metadata.uid ?? ""]));
  for (const task of decision.remove) {
    // The cache may be older than a Task of the same name.
    const preconditions = { uid: uids.get(task) ?? "" };
    try {
      await ignoreConflict(
        client.delete(Task, { namespace, name: task }, { propagationPolicy: "Background", preconditions, signal }),
      );
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
  const result = decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
  if (decision.status === undefined) return result;
  await ignoreConflict(
    client.applyStatus(
      TaskGroup,
      { metadata: { name, namespace, resourceVersion: group.metadata.resourceVersion }, status: decision.status },
      { fieldManager, signal },
    ),
  );
  return result;
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
