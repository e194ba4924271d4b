import type { DeepReadonly } from "@keelson/api-machinery";
import {
  type Cache,
  type ControllerDefinition,
  defineController,
  ignoreConflict,
  type ReconcileContext,
  type Request,
  type Result,
} from "@keelson/controller";
import { Job } from "../../api/job.ts";
import { agentFinalizer, pinnedAnnotation } from "../../api/names.ts";
import { Robot } from "../../api/robot.ts";
import { Task } from "../../api/task.ts";
import { isBound, isWaiting, priorityOf } from "../../placement/robot-use.ts";
import { RobotLoads } from "../../placement/robot-loads.ts";
import { taskReads } from "../indexes.ts";
import { disconnectPolicyOf } from "../../work/disconnect-policy.ts";
import { leasesFeature } from "../../protocol/messages.ts";
import { describePreemption } from "../moves/preemption-decision.ts";
import { decideTask, type TaskDecision } from "./task-decision.ts";
import { hasStatus, type TaskStatus } from "../groups/owned-task-status.ts";
import { type DispatchedAttempt, dispatchedStatus, type StatusDecision, statusAfter } from "./task-status.ts";
import { taskWatches } from "./task-watches.ts";

const fieldManager = "robots-task-controller";

/** Creates the controller that binds Tasks to robots, dispatches their attempts, and releases deleted ones. */
export function createTaskController(): ControllerDefinition {
  const loads = new RobotLoads();
  return defineController({
    name: "robots-task",
    for: Task,
    reads: [taskReads],
    watches: taskWatches,
    priorityOf: queuePriority,
    // Nothing waits between reading the cache and recording the choice, so concurrent reconciles see each other's choices.
    maxConcurrentReconciles: 8,
    reconcile: (request, context) => reconcile(request, context, loads),
  });
}

/** Waiting Tasks are placed in the order of their priority, after everything else that is to be done. */
function queuePriority({ namespace, name }: Request, cache: Cache): number {
  const task = cache.get(Task, { namespace, name });
  return task !== undefined && isWaiting(task) && !isBound(task) ? priorityOf(task) - 101 : 0;
}

async function reconcile(request: Request, context: ReconcileContext, loads: RobotLoads): Promise<Result | undefined> {
  const { cache, clock } = context;
  const task = cache.get(Task, request);
  if (task === undefined) return undefined;
  const { namespace } = request;
  const now = clock.now();
  const jobName = task.spec.jobName ?? "";
  const decision = decideTask({
    task,
    job: jobName === "" ? undefined : cache.get(Job, { namespace, name: jobName }),
    robots: cache.list(Robot, { namespace }),
    usesOf: (robot) => loads.usesOf(cache, namespace, robot, task.metadata.uid ?? ""),
    preemptorsOf: ({ metadata }) => cache.list(Task, { namespace, index: ["preempting", metadata.uid ?? ""] }),
    copies: (job) => loads.copiesOf(cache, task, job),
    now,
  });
  switch (decision.kind) {
    case "leave":
      return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
    case "bind":
      await bindAndDispatch(task, decision, loads, context);
      return undefined;
    case "dispatch":
      await dispatch(task, decision, context);
      return undefined;
    case "release":
      await release(task, context);
      return undefined;
    default: {
      const status = statusAfter(task, decision, now);
      const requeueAfterMs = "requeueAfterMs" in decision ? decision.requeueAfterMs : undefined;
      const result = requeueAfterMs === undefined ? undefined : { requeueAfterMs };
      if (hasStatus(task, status)) return result;
      const written = await applyStatus(task, status, context);
      if (written !== undefined) recordEvent(task, decision, context.events);
      return result;
    }
  }
}

async function bindAndDispatch(
  task: DeepReadonly<Task>,
  { robot, isPinned, devices }: TaskDecision & { readonly kind: "bind" },
  loads: RobotLoads,
  context: ReconcileContext,
): Promise<void> {
  const undo = loads.assume(task, robot, devices);
  try {
    const bound = await bind(task, { robot, isPinned, devices }, context);
    if (bound === undefined) {
      undo();
      return;
    }
    // The binding is stored. If this write fails, the next reconcile dispatches.
    await dispatch(bound, { robot, attempt: (task.status?.attempt ?? 0) + 1, isRestart: false }, context);
    const from = task.status?.movedFrom;
    context.events.event(
      task,
      from === undefined
        ? { type: "Normal", reason: "Scheduled", note: `bound to the robot ${robot}` }
        : { type: "Normal", reason: "Moved", note: `moved from the robot ${from} to ${robot}` },
    );
  } catch (error) {
    undo();
    throw error;
  }
}

/** Records an attempt, which the bridge then sends. */
async function dispatch(
  task: DeepReadonly<Task>,
  attempt: Omit<DispatchedAttempt, "isLeased">,
  context: ReconcileContext,
): Promise<void> {
  const { cache, clock, events } = context;
  const robot = cache.get(Robot, { namespace: task.metadata.namespace, name: attempt.robot });
  const isLeased =
    disconnectPolicyOf(task.spec)?.onRobot === "stop" && robot?.status?.agentFeatures?.includes(leasesFeature) === true;
  const status = dispatchedStatus(task, { ...attempt, isLeased }, clock.now());
  const written = await applyStatus(task, status, context);
  if (written === undefined || !attempt.isRestart) return;
  events.event(task, { type: "Normal", reason: "Restarting", note: `attempt ${attempt.attempt} on ${attempt.robot}` });
}

/** Records the robot and its devices in the Task. Undefined if the Task has changed since it was read. */
async function bind(
  task: DeepReadonly<Task>,
  { robot, isPinned, devices }: Pick<TaskDecision & { readonly kind: "bind" }, "robot" | "isPinned" | "devices">,
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
          // The next reconcile cannot tell a robot that the user chose from one that is recorded here.
          ...(isPinned ? { annotations: { [pinnedAnnotation]: "true" } } : {}),
        },
        // Devices that a user has named are replaced.
        spec: { targetRobot: robot, ...((devices ?? task.spec.targetDevices) && { targetDevices: devices ?? [] }) },
      },
      { fieldManager, signal: context.signal },
    ),
  );
}

/** Removes the finalizer. */
async function release(task: DeepReadonly<Task>, { client, signal }: ReconcileContext): Promise<void> {
  const { name = "", namespace, resourceVersion } = task.metadata;
  // A merge patch: a user who applied an exported manifest owns the finalizer too, and an apply would leave it in place.
  const finalizers = (task.metadata.finalizers ?? []).filter((finalizer) => finalizer !== agentFinalizer);
  const body = { metadata: { resourceVersion, finalizers } };
  await ignoreConflict(client.patch(Task, { namespace, name }, { type: "merge", body }, { fieldManager, signal }));
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

function recordEvent(task: DeepReadonly<Task>, decision: StatusDecision, events: ReconcileContext["events"]): void {
  switch (decision.kind) {
    case "wait":
      events.event(task, { type: "Warning", reason: "FailedScheduling", note: decision.message });
      break;
    case "fail":
    case "lose":
      events.event(task, { type: "Warning", reason: decision.reason, note: decision.message });
      break;
    case "recover":
      events.event(task, { type: "Normal", reason: "RobotReporting", note: `${decision.robot} is reporting again` });
      break;
    case "preempt":
      events.event(task, { type: "Normal", reason: "Preempting", note: describePreemption(decision.preemption) });
      break;
    case "move": {
      const reason = decision.isPreempted === true ? "Preempted" : "Moving";
      events.event(task, { type: "Warning", reason, note: `moving from ${decision.from}: ${decision.why}` });
      break;
    }
    case "reconcile":
      if (decision.displaced.kind !== "forget" && task.metadata.deletionTimestamp === undefined) {
        const kept = decision.displaced.kind === "adopt" ? "its attempt is kept" : "its attempt is stopped";
        events.event(task, {
          type: "Normal",
          reason: "Reconciled",
          note: `${task.status?.displaced?.robot ?? "a robot"} is reporting again; ${kept}`,
        });
      }
      break;
    case "wait-for-stop":
    case "plan-restart":
    case "plan-move":
      break;
  }
}
