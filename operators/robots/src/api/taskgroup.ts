import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { Affinity, Constraint } from "./constraint.ts";
import { Spread } from "./spread.ts";
import { conditions, int32, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { count, jobType, preemptionPolicy, priority, robotSelector, workState } from "./job.ts";
import { group, version } from "./names.ts";
import { maxPayloadLength } from "./parent-job.ts";
import { DisconnectPolicy, EphemeralDisk, ReschedulePolicy, RestartPolicy } from "./policies.ts";
import { initTasks, network, taskDefinitions } from "./task-definition.ts";
import { GroupRevision, GroupRollout, revision, UpdatePolicy } from "./update-policy.ts";

const spec = Type.Object(
  {
    jobName: Type.String({ description: "Name of the Job that the group belongs to." }),
    groupName: Type.String({ description: "Name of the group within the Job." }),
    count,
    tasks: taskDefinitions,
    initTasks: Type.Optional(initTasks),
    network: Type.Optional(network),
    type: Type.Optional(jobType),
    robotSelector: Type.Optional(robotSelector),
    priority: Type.Optional(priority),
    preemptionPolicy: Type.Optional(preemptionPolicy),
    constraints: Type.Optional(
      Type.Array(Constraint, { description: "Requirements on the robots of all tasks of the group." }),
    ),
    affinities: Type.Optional(
      Type.Array(Affinity, { description: "Preferences for robots of all tasks of the group.", maxItems: 32 }),
    ),
    spreads: Type.Optional(
      Type.Array(Spread, { description: "How the copies of each task of the group spread.", maxItems: 16 }),
    ),
    restartPolicy: Type.Optional(RestartPolicy),
    reschedulePolicy: Type.Optional(ReschedulePolicy),
    disconnect: Type.Optional(DisconnectPolicy),
    ephemeralDisk: Type.Optional(EphemeralDisk),
    update: Type.Optional(UpdatePolicy),
    revision: Type.Optional(revision),
    rollout: Type.Optional(GroupRevision),
    meta: Type.Optional(
      stringMap("Metadata of the Job and the group. Programs get each entry as a variable K8S4R_META_<KEY>."),
    ),
    payload: Type.Optional(
      Type.String({ description: "Payload of a dispatched Job, in base64.", maxLength: maxPayloadLength }),
    ),
  },
  { description: "The tasks and their number of copies." },
);

const status = Type.Object(
  {
    state: Type.Optional(
      workState("pending, running, completed (every task succeeded) or failed (every task ended, at least one failed)."),
    ),
    statusDescription: Type.Optional(Type.String({ description: "Progress as readable text." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status reflects.")),
    totalTasks: Type.Optional(int32("Number of tasks.")),
    pendingTasks: Type.Optional(int32("Number of tasks that wait for a robot, for their robot's answer or for a restart.")),
    runningTasks: Type.Optional(int32("Number of running tasks.")),
    succeededTasks: Type.Optional(int32("Number of tasks that succeeded.")),
    failedTasks: Type.Optional(int32("Number of tasks that failed.")),
    lostTasks: Type.Optional(int32("Number of pending or running tasks whose robot has stopped reporting.")),
    lostSince: Type.Optional(time("Time at which the first of the lost tasks was lost.")),
    startedAt: Type.Optional(time("Start of the first task.")),
    completedAt: Type.Optional(time("End of the last task.")),
    rollout: Type.Optional(GroupRollout),
    conditions: Type.Optional(conditions("Completed, Failed and Lost.")),
  },
  { description: "Observed state of the group." },
);

/** A group of tasks of a Job. */
export const TaskGroup = defineResource({
  group,
  version,
  kind: "TaskGroup",
  plural: "taskgroups",
  shortNames: ["rtg"],
  description: "A group of tasks of a Job and its number of copies.",
  spec,
  status,
  columns: [
    { name: "Job", type: "string", jsonPath: ".spec.jobName" },
    { name: "State", type: "string", jsonPath: ".status.state" },
    { name: "Total", type: "integer", jsonPath: ".status.totalTasks" },
    { name: "Running", type: "integer", jsonPath: ".status.runningTasks" },
    { name: "Succeeded", type: "integer", jsonPath: ".status.succeededTasks" },
    { name: "Failed", type: "integer", jsonPath: ".status.failedTasks" },
    { name: "Revision", type: "integer", jsonPath: ".spec.revision", priority: 1 },
    { name: "Rollout", type: "string", jsonPath: ".status.rollout.phase", priority: 1 },
    { name: "Updated", type: "integer", jsonPath: ".status.rollout.updated", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type TaskGroup = ObjectType<typeof TaskGroup>;
