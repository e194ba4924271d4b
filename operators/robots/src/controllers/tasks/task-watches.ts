import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { type Cache, type Change, type Request, watchOf } from "@keelson/controller";
import { Job } from "../../api/job.ts";
import { Robot } from "../../api/robot.ts";
import { Task } from "../../api/task.ts";
import { priorityOf, useOf } from "../../placement/robot-use.ts";
import { isStoppable, mayPreempt } from "../moves/preemption-decision.ts";
import { hasOtherState, isOtherMachine } from "../../placement/device-change.ts";

/** Changes of Robots, Tasks and Jobs that can change a decision about another Task. */
export const taskWatches = [
  // A Robot that appears, disappears or changes: Tasks that wait for a robot, and unfinished Tasks of this one.
  watchOf(
    Robot,
    (robot, { cache }) => [
      ...waitingTasks(cache, robot.metadata.namespace),
      ...requestsFor(
        cache
          .list(Task, { namespace: robot.metadata.namespace, index: ["robot", robot.metadata.name ?? ""] })
          .filter((task) => task.metadata.deletionTimestamp !== undefined || !hasEnded(task)),
      ),
      ...requestsFor(
        cache.list(Task, { namespace: robot.metadata.namespace, index: ["displaced", robot.metadata.name ?? ""] }),
      ),
    ],
    [affectsPlacement],
  ),
  // A Task that leaves a robot, gives up a reservation, or needs less, makes room. Its priority decides whether it can be stopped.
  watchOf(Task, (task, { cache }) => waitingTasks(cache, task.metadata.namespace), [makesRoom]),
  // A Task that can be stopped from now on.
  watchOf(
    Task,
    (task, { cache }) =>
      requestsFor(
        cache
          .list(Task, { namespace: task.metadata.namespace, index: ["state", "pending"] })
          .filter((waiting) => mayPreempt(waiting, task))
          .sort((a, b) => priorityOf(b) - priorityOf(a)),
      ),
    [({ object, old }: Change<Task>) => old !== undefined && isStoppable(object) && !isStoppable(old)],
  ),
  // A Task that has chosen to stop others, and those that have reserved room on the same robot.
  watchOf(
    Task,
    ({ metadata: { namespace }, status }, { cache }) => {
      const { robot, tasks = [] } = status?.preemption ?? {};
      const chosen = tasks.flatMap(({ name, uid }) => {
        const task = cache.get(Task, { namespace, name });
        return task?.metadata.uid === uid ? [task] : [];
      });
      const reserving = robot === undefined ? [] : cache.list(Task, { namespace, index: ["reserved", robot] });
      return requestsFor([...chosen, ...reserving]);
    },
    [(change: Change<Task>) => !jsonEquals(change.old?.status?.preemption, change.object.status?.preemption)],
  ),
  // Another attempt or spec of a Task that was chosen to be stopped: the choice names the attempt, and depends on the priority.
  watchOf(
    Task,
    ({ metadata: { namespace, uid } }, { cache }) => requestsFor(cache.list(Task, { namespace, index: ["preempting", uid] })),
    [
      ({ object, old }: Change<Task>) =>
        old !== undefined && (old.status?.attempt !== object.status?.attempt || !jsonEquals(old.spec, object.spec)),
    ],
  ),
  // A new Job determines which robots its hand-written Tasks may use.
  watchOf(
    Job,
    (job, { cache }) =>
      requestsFor(
        cache
          .list(Task, { namespace: job.metadata.namespace, index: ["job", job.metadata.name ?? ""] })
          .filter((task) => task.spec.robotSelector === undefined && (task.status?.state || "pending") === "pending"),
      ),
    [
      (change: Change<Job>) =>
        change.type !== "update" || !jsonEquals(change.old?.spec.robotSelector, change.object.spec.robotSelector),
    ],
  ),
];

function requestsFor(tasks: readonly DeepReadonly<Task>[]): Request[] {
  return tasks.map((task) => ({ namespace: task.metadata.namespace, name: task.metadata.name ?? "" }));
}

/** The highest priority first: an idle worker takes the first one before the others are in the queue. */
function waitingTasks(cache: Cache, namespace: string | undefined): Request[] {
  const waiting = cache.list(Task, { namespace, index: ["state", "pending"] });
  return requestsFor([...waiting].sort((a, b) => priorityOf(b) - priorityOf(a)));
}

/** Whether a Robot changed in a way that affects Tasks. Heartbeats do not. */
export function affectsPlacement({ type, object, old }: Change<Robot>): boolean {
  if (type !== "update" || old === undefined) return true;
  return (
    old.status?.phase !== object.status?.phase ||
    old.status?.message !== object.status?.message ||
    old.metadata.deletionTimestamp !== object.metadata.deletionTimestamp ||
    !jsonEquals(old.spec, object.spec) ||
    !jsonEquals(old.status?.drivers, object.status?.drivers) ||
    !jsonEquals(old.status?.agentFeatures, object.status?.agentFeatures) ||
    isOtherMachine(old.status?.deviceInfo, object.status?.deviceInfo) ||
    hasOtherState(old.status?.deviceInfo, object.status?.deviceInfo)
  );
}

const hasEnded = (task: DeepReadonly<Task> | undefined): boolean =>
  task?.status?.state === "completed" || task?.status?.state === "failed";

function makesRoom({ type, object, old }: Change<Task>): boolean {
  if (type === "delete") return robotsOf(object).size > 0;
  if (old === undefined) return false;
  const [before, now] = [robotsOf(old), robotsOf(object)];
  const hasOtherDemand = priorityOf(old) !== priorityOf(object) || !jsonEquals(old.spec.resources, object.spec.resources);
  return [...before].some((use) => hasOtherDemand || !now.has(use));
}

/** The robots that a Task uses, and how. */
function robotsOf(task: DeepReadonly<Task>): ReadonlySet<string> {
  const { spec, status } = task;
  const names = [spec.targetRobot, status?.displaced?.robot, status?.preemption?.robot];
  return new Set(
    names.flatMap((robot) => {
      const use = robot === undefined ? undefined : useOf(task, robot);
      return use === undefined ? [] : [`${use === "reserved" ? use : "used"}/${robot}`];
    }),
  );
}
