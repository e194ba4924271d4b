import { readOf } from "@keelson/controller";
import { Task } from "../api/task.ts";
import { TaskGroup } from "../api/taskgroup.ts";
import { byController } from "../work/owner.ts";

/** TaskGroups with the index `controller`: uid of the Job. */
export const taskGroupReads = readOf(TaskGroup, { controller: byController });

/** Tasks with their indexes. */
export const taskReads = readOf(Task, {
  /** uid of the TaskGroup. */
  controller: byController,
  /** uid of the Task itself. */
  uid: (task) => (task.metadata.uid === undefined ? [] : [task.metadata.uid]),
  /** The robot that it is bound to. */
  robot: (task) => (task.spec.targetRobot === undefined || task.spec.targetRobot === "" ? [] : [task.spec.targetRobot]),
  /** Its state; `pending` also before it has one. */
  state: (task) => [task.status?.state || "pending"],
  /** Name of its Job. */
  job: (task) => (task.spec.jobName === undefined || task.spec.jobName === "" ? [] : [task.spec.jobName]),
});
