import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { type Cache, type Change, type Request, watchOf } from "@keelson/controller";
import { Job } from "../api/job.ts";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { isOtherMachine } from "../placement/device-change.ts";

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
  // A Task that ends releases its resources.
  watchOf(Task, (task, { cache }) => waitingTasks(cache, task.metadata.namespace), [releasesResources]),
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

function waitingTasks(cache: Cache, namespace: string | undefined): Request[] {
  return requestsFor(cache.list(Task, { namespace, index: ["state", "pending"] }));
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
    isOtherMachine(old.status?.deviceInfo, object.status?.deviceInfo)
  );
}

const hasEnded = (task: DeepReadonly<Task> | undefined): boolean =>
  task?.status?.state === "completed" || task?.status?.state === "failed";

function releasesResources({ type, object, old }: Change<Task>): boolean {
  if (type === "delete") return object.spec.targetRobot !== undefined && !hasEnded(object);
  return hasEnded(object) && old !== undefined && !hasEnded(old);
}
