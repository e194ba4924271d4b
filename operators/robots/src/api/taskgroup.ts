import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { Constraint } from "./constraint.ts";
import { conditions, int32, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { count, priority, robotSelector, workState } from "./job.ts";
import { group, version } from "./names.ts";
import { EphemeralDisk, ReschedulePolicy, RestartPolicy } from "./policies.ts";
import { taskDefinitions } from "./task-definition.ts";

const spec = Type.Object(
  {
    jobName: Type.String({ description: "Name of the Job that this group is of." }),
    groupName: Type.String({ description: "Name of the group within the Job." }),
    count,
    tasks: taskDefinitions,
    robotSelector: Type.Optional(robotSelector),
    priority: Type.Optional(priority),
    constraints: Type.Optional(Type.Array(Constraint, { description: "Demands on the robots of all tasks of the group." })),
    restartPolicy: Type.Optional(RestartPolicy),
    reschedulePolicy: Type.Optional(ReschedulePolicy),
    ephemeralDisk: Type.Optional(EphemeralDisk),
    meta: Type.Optional(stringMap("Anything you want to note about the group.")),
  },
  { description: "The tasks and how many copies of them run." },
);

const status = Type.Object(
  {
    state: Type.Optional(
      workState("pending, running, completed (every task ended well) or failed (every task ended, at least one failed)."),
    ),
    statusDescription: Type.Optional(Type.String({ description: "How far the group is, for people." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status is about.")),
    totalTasks: Type.Optional(int32("How many tasks there are.")),
    pendingTasks: Type.Optional(int32("How many wait: for a robot, for their robot to answer, or to be started again.")),
    runningTasks: Type.Optional(int32("How many run.")),
    succeededTasks: Type.Optional(int32("How many ended well.")),
    failedTasks: Type.Optional(int32("How many failed.")),
    startedAt: Type.Optional(time("When the first task started.")),
    completedAt: Type.Optional(time("When the last task ended.")),
    conditions: Type.Optional(conditions("Completed and Failed.")),
  },
  { description: "How the group goes." },
);

/** Tasks of a Job that belong together. */
export const TaskGroup = defineResource({
  group,
  version,
  kind: "TaskGroup",
  plural: "taskgroups",
  shortNames: ["rtg"],
  description: "Tasks of a Job that belong together, and how many copies of them run.",
  spec,
  status,
  columns: [
    { name: "Job", type: "string", jsonPath: ".spec.jobName" },
    { name: "State", type: "string", jsonPath: ".status.state" },
    { name: "Total", type: "integer", jsonPath: ".status.totalTasks" },
    { name: "Running", type: "integer", jsonPath: ".status.runningTasks" },
    { name: "Succeeded", type: "integer", jsonPath: ".status.succeededTasks" },
    { name: "Failed", type: "integer", jsonPath: ".status.failedTasks" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type TaskGroup = ObjectType<typeof TaskGroup>;
