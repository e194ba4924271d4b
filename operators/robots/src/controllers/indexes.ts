import { ControllerRevision } from "@keelson/api-machinery/kinds";
import { readOf } from "@keelson/controller";
import { Job } from "../api/job.ts";
import { Task } from "../api/task.ts";
import { TaskGroup } from "../api/taskgroup.ts";
import { isWaiting } from "../placement/robot-use.ts";
import { byController } from "../work/owner.ts";

/** Reads Jobs with the index `controller`: uid of the periodic or parameterized Job. */
export const jobReads = readOf(Job, { controller: byController });

/** Reads ControllerRevisions with the index `controller`: uid of the Job. */
export const revisionReads = readOf(ControllerRevision, { controller: byController });

/** Reads TaskGroups with the index `controller`: uid of the Job. */
export const taskGroupReads = readOf(TaskGroup, { controller: byController });

/** Reads Tasks with the indexes that controllers and the bridge use. */
export const taskReads = readOf(Task, {
  /** uid of the TaskGroup. */
  controller: byController,
  /** uid of the Task itself. */
  uid: (task) => (task.metadata.uid === undefined ? [] : [task.metadata.uid]),
  /** Name of the robot that the Task is bound to. */
  robot: (task) => (task.spec.targetRobot === undefined || task.spec.targetRobot === "" ? [] : [task.spec.targetRobot]),
  /** Name of the robot of a displaced attempt. */
  displaced: (task) => (task.status?.displaced === undefined ? [] : [task.status.displaced.robot]),
  /** Name of the robot on which a waiting Task has reserved room. */
  reserved: (task) => (isWaiting(task) && task.status?.preemption !== undefined ? [task.status.preemption.robot] : []),
  /** uids of the Tasks that a waiting Task has chosen to stop. */
  preempting: (task) => (isWaiting(task) ? (task.status?.preemption?.tasks ?? []).map(({ uid }) => uid) : []),
  /** State; `pending` if it is not set yet. */
  state: (task) => [task.status?.state || "pending"],
  /** Name of the Job. */
  job: (task) => (task.spec.jobName === undefined || task.spec.jobName === "" ? [] : [task.spec.jobName]),
});
