import { type Condition, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import {
  type Cache,
  type Change,
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
  ignoreConflict,
} from "@keelson/controller";
import { Job } from "../api/job.ts";
import { agentFinalizer } from "../api/names.ts";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { conditionsOf } from "../work/conditions.ts";
import { taskReads } from "./indexes.ts";
import { createRobotLoads, type RobotLoads } from "../placement/robot-loads.ts";
import { decideTask, type TaskDecision } from "./task-decision.ts";

const fieldManager = "robots-task-controller";

type TaskStatus = NonNullable<Task["status"]>;

/** Chooses the robot of a Task, starts its attempts, and lets it go when it is deleted. */
export function createTaskController(): ControllerDefinition {
  const loads = createRobotLoads();
  return defineController({
    name: "robots-task",
    for: Task,
    reads: [taskReads],
    watches: [
      // A robot that comes, goes or changes: Tasks that wait for one, and Tasks whose deletion waits for this one.
      watchOf(
        Robot,
        (robot, { cache }) => [
          ...waiting(cache, robot.metadata.namespace),
          ...requestsOf(
            cache
              .list(Task, { namespace: robot.metadata.namespace, index: ["robot", robot.metadata.name ?? ""] })
              .filter((task) => task.metadata.deletionTimestamp !== undefined),
          ),
        ],
        [mattersForPlacement],
      ),
      // A Task that ends gives back what it took.
      watchOf(Task, (task, { cache }) => waiting(cache, task.metadata.namespace), [givesBack]),
      // A Job that appears tells which robots its hand-made Tasks may use.
      watchOf(
        Job,
        (job, { cache }) =>
          requestsOf(
            cache
              .list(Task, { namespace: job.metadata.namespace, index: ["job", job.metadata.name ?? ""] })
              .filter((task) => task.spec.robotSelector === undefined && (task.status?.state || "pending") === "pending"),
          ),
        [
          (change: Change<Job>) =>
            change.type !== "update" || !jsonEquals(change.old?.spec.robotSelector, change.object.spec.robotSelector),
        ],
      ),
    ],
    // Between reading the cache and noting the choice nothing waits, so several at once do not choose the same place.
    maxConcurrentReconciles: 8,
    reconcile: (request, context) => reconcile(request, context, loads),
  });
}

function requestsOf(tasks: readonly DeepReadonly<Task>[]): Request[] {
  return tasks.map((task) => ({ namespace: task.metadata.namespace, name: task.metadata.name ?? "" }));
}

function waiting(cache: Cache, namespace: string | undefined): Request[] {
  return requestsOf(cache.list(Task, { namespace, index: ["state", "pending"] }));
}

/** Heartbeats alone change nothing for Tasks. */
function mattersForPlacement({ type, object, old }: Change<Robot>): boolean {
  if (type !== "update" || old === undefined) return true;
  return (
    old.status?.phase !== object.status?.phase ||
    old.metadata.deletionTimestamp !== object.metadata.deletionTimestamp ||
    !jsonEquals(old.spec, object.spec) ||
    !jsonEquals(old.status?.deviceInfo, object.status?.deviceInfo)
  );
}

const isOver = (task: DeepReadonly<Task> | undefined): boolean =>
  task?.status?.state === "completed" || task?.status?.state === "failed";

function givesBack({ type, object, old }: Change<Task>): boolean {
  if (type === "delete") return object.spec.targetRobot !== undefined && !isOver(object);
  return isOver(object) && old !== undefined && !isOver(old);
}

async function reconcile(request: Request, context: ReconcileContext, loads: RobotLoads): Promise<Result | undefined> {
  const { cache, client, clock, events, signal } = context;
  const task = cache.get(Task, request);
  if (task === undefined) return undefined;
  const { namespace, name } = request;
  const now = clock.now();
  const jobName = task.spec.jobName ?? "";
  const decision = decideTask({
    task,
    job: jobName === "" ? undefined : cache.get(Job, { namespace, name: jobName }),
    robots: cache.list(Robot, { namespace }),
    loadOf: (robot) => loads.loadOf(cache, namespace, robot, task.metadata.uid ?? ""),
    now,
  });
  switch (decision.kind) {
    case "leave":
      return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
    case "bind": {
      const takeBack = loads.assume(task, decision.robot);
      try {
        const bound = await bind(task, decision.robot, context);
        // The binding is stored; what follows may fail, and then the next reconcile dispatches.
        if (bound === undefined) {
          takeBack();
          return undefined;
        }
        await applyStatus(bound, dispatched(bound, decision.robot, 1, false, now), context);
        events.event(task, { type: "Normal", reason: "Scheduled", note: `bound to the robot ${decision.robot}` });
      } catch (error) {
        takeBack();
        throw error;
      }
      return undefined;
    }
    case "release": {
      // A merge patch, since whoever applied an exported manifest owns the finalizer too, and apply would leave it to them.
      const finalizers = (task.metadata.finalizers ?? []).filter((finalizer) => finalizer !== agentFinalizer);
      const body = { metadata: { resourceVersion: task.metadata.resourceVersion, finalizers } };
      await ignoreConflict(client.patch(Task, { namespace, name }, { type: "merge", body }, { fieldManager, signal }));
      return undefined;
    }
    default: {
      const status = statusAfter(task, decision, now);
      if (jsonEquals(status, { ...ownedPart(task) })) return undefined;
      const written = await applyStatus(task, status, context);
      if (written !== undefined) tell(task, decision, events);
      return undefined;
    }
  }
}

/** Records the choice: from here on, the Task is this robot's. Undefined where the Task has moved on. */
async function bind(
  task: DeepReadonly<Task>,
  robot: string,
  context: ReconcileContext,
): Promise<DeepReadonly<Task> | undefined> {
  return await ignoreConflict(
    context.client.apply(
      Task,
      {
        metadata: {
          name: task.metadata.name ?? "",
          namespace: task.metadata.namespace,
          resourceVersion: task.metadata.resourceVersion,
          finalizers: [agentFinalizer],
        },
        spec: { targetRobot: robot },
      },
      { fieldManager, signal: context.signal },
    ),
  );
}

async function applyStatus(
  task: DeepReadonly<Task>,
  status: TaskStatus,
  { client, signal }: ReconcileContext,
): Promise<DeepReadonly<Task> | undefined> {
  const { name = "", namespace, resourceVersion } = task.metadata;
  return await ignoreConflict(
    client.applyStatus(Task, { metadata: { name, namespace, resourceVersion }, status }, { fieldManager, signal }),
  );
}

/** What this controller owns of a Task's status: an apply has to repeat all of it. */
function ownedPart(task: DeepReadonly<Task>): TaskStatus {
  const { status } = task;
  const own: Record<string, unknown> = {};
  for (const field of [
    "state",
    "message",
    "reason",
    "attempt",
    "dispatchedAt",
    "restartCount",
    "lastRestartTime",
    "restartAt",
    "restartWindowStart",
    "restartsInWindow",
    "observedGeneration",
  ] as const) {
    if (status?.[field] !== undefined) own[field] = status[field];
  }
  const scheduled = status?.conditions?.filter((condition) => condition.type === "Scheduled");
  if (scheduled && scheduled.length > 0) own.conditions = scheduled;
  return own as TaskStatus;
}

function dispatched(task: DeepReadonly<Task>, robot: string, attempt: number, isRestart: boolean, now: number): TaskStatus {
  const { restartAt: _done, reason: _reason, ...before } = ownedPart(task);
  const at = new Date(now).toISOString();
  return {
    ...before,
    state: "dispatching",
    message: isRestart ? `attempt ${attempt}: dispatching to ${robot}` : `Dispatching to ${robot}`,
    attempt,
    // Reports of this attempt count from 1; what the last attempt reported is no longer the last word.
    seq: 0,
    dispatchedAt: at,
    restartCount: (task.status?.restartCount ?? 0) + (isRestart ? 1 : 0),
    ...(isRestart ? { lastRestartTime: at } : {}),
    observedGeneration: task.metadata.generation ?? 0,
    conditions: scheduledCondition(task, "True", "RobotChosen", `bound to the robot ${robot}`, now),
  };
}

function scheduledCondition(
  task: DeepReadonly<Task>,
  status: "True" | "False",
  reason: string,
  message: string,
  now: number,
): Condition[] {
  const observedGeneration = task.metadata.generation ?? 0;
  return conditionsOf([{ type: "Scheduled", status, observedGeneration, reason, message }], task.status?.conditions, now);
}

type StatusDecision = Exclude<TaskDecision, { readonly kind: "leave" | "bind" | "release" }>;

function statusAfter(task: DeepReadonly<Task>, decision: StatusDecision, now: number): TaskStatus {
  const before = ownedPart(task);
  const observedGeneration = task.metadata.generation ?? 0;
  switch (decision.kind) {
    case "wait":
      return {
        ...before,
        state: "pending",
        message: decision.message,
        reason: "Unschedulable",
        observedGeneration,
        conditions: scheduledCondition(task, "False", "Unschedulable", decision.message, now),
      };
    case "dispatch":
      return dispatched(task, decision.robot, decision.attempt, decision.isRestart, now);
    case "plan-restart": {
      const at = new Date(decision.atMs).toISOString();
      return {
        ...before,
        message: `${task.status?.message ?? "failed"}; starts again at ${at}`,
        reason: "RestartPlanned",
        restartAt: at,
        restartWindowStart: new Date(decision.windowStartMs).toISOString(),
        restartsInWindow: decision.restartsInWindow,
      };
    }
    case "fail":
      return { ...before, state: "failed", message: decision.message, reason: decision.reason, observedGeneration };
  }
}

function tell(task: DeepReadonly<Task>, decision: StatusDecision, events: ReconcileContext["events"]): void {
  switch (decision.kind) {
    case "wait":
      events.event(task, { type: "Warning", reason: "FailedScheduling", note: decision.message });
      break;
    case "dispatch":
      if (decision.isRestart) {
        events.event(task, { type: "Normal", reason: "Restarting", note: `attempt ${decision.attempt} on ${decision.robot}` });
      }
      break;
    case "fail":
      events.event(task, { type: "Warning", reason: decision.reason, note: decision.message });
      break;
    case "plan-restart":
      break;
  }
}
