import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { Affinity, Constraint } from "./constraint.ts";
import { Spread } from "./spread.ts";
import { choice, conditions, int32, int64, listMap, partName, stringMap, time } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { DisconnectPolicy, EphemeralDisk, ReschedulePolicy, RestartPolicy } from "./policies.ts";
import { maxPayloadLength, Parameterized, Periodic } from "./parent-job.ts";
import { initTasks, network, taskDefinitions } from "./task-definition.ts";
import { JobRollout, UpdatePolicy } from "./update-policy.ts";

/** How the tasks of a Job run. */
export const jobType = choice(
  ["service", "batch", "system", "sysbatch"],
  "How the tasks run. batch: to completion. service: until they are deleted; a program that exits is restarted, even with 0. system and sysbatch: like service and batch, once on every robot that matches, including robots that join later; count is ignored. The type also selects the default restart policy.",
  {
    default: "batch",
  },
);

/** Type of a Job. */
export type JobType = Static<typeof jobType>;

/** Whether the tasks of a Job of this type run until they are deleted. */
export function isLongRunning(type: JobType | undefined): boolean {
  return type === "service" || type === "system";
}

/** Whether a Job of this type runs each task once on every robot that matches. */
export function isPerRobot(type: JobType | undefined): boolean {
  return type === "system" || type === "sysbatch";
}

/** Scheduling priority. */
export const priority = int32("Priority, from 0 to 100. Waiting tasks are placed in its order. See preemptionPolicy.", {
  minimum: 0,
  maximum: 100,
  default: 50,
});

/** Whether tasks may stop others of lower priority. */
export const preemptionPolicy = choice(
  ["Never", "PreemptLowerPriority"],
  "Whether a task that finds no room stops tasks whose priority is lower by at least 10. They are moved to other robots, or wait. Tasks that are pinned to their robot or run on every robot are not stopped. Default: Never.",
);

/** Selects robots by label. */
export const robotSelector = stringMap(
  "Labels that a robot must have in its spec.labels, all of them. Empty selects every robot in the namespace.",
);

/** Number of copies of a group. */
export const count = int32("Number of copies of the group. They spread over the robots.", { minimum: 1, maximum: 10_000 });

const TaskGroupTemplate = Type.Object(
  {
    name: partName("Name of the group within the Job."),
    count,
    tasks: taskDefinitions,
    initTasks: Type.Optional(initTasks),
    network: Type.Optional(network),
    affinities: Type.Optional(
      Type.Array(Affinity, { description: "Preferences for robots of all tasks of the group.", maxItems: 32 }),
    ),
    spreads: Type.Optional(
      Type.Array(Spread, {
        description: "How the copies of each task of the group spread, in addition to the Job.",
        maxItems: 8,
      }),
    ),
    constraints: Type.Optional(
      Type.Array(Constraint, { description: "Requirements on the robots of all tasks of the group." }),
    ),
    restartPolicy: Type.Optional(RestartPolicy),
    reschedulePolicy: Type.Optional(ReschedulePolicy),
    disconnect: Type.Optional(DisconnectPolicy),
    update: Type.Optional(UpdatePolicy),
    ephemeralDisk: Type.Optional(EphemeralDisk),
    meta: Type.Optional(stringMap("Metadata of the group, in addition to that of the Job.")),
  },
  { description: "A group of tasks and its number of copies." },
);
/** A group of tasks and its number of copies. */
export type TaskGroupTemplate = Static<typeof TaskGroupTemplate>;

const spec = Type.Object(
  {
    name: Type.String({ description: "Name of the work. Usually the same as metadata.name." }),
    robotSelector: Type.Optional(robotSelector),
    type: Type.Optional(jobType),
    datacenters: Type.Optional(Type.Array(Type.String(), { description: "Accepted for compatibility with K8s4r. Not used." })),
    priority: Type.Optional(priority),
    preemptionPolicy: Type.Optional(preemptionPolicy),
    spreads: Type.Optional(Type.Array(Spread, { description: "How the copies of each task spread.", maxItems: 8 })),
    taskGroups: Type.Array(TaskGroupTemplate, {
      ...listMap(
        "name",
        "The groups of tasks. Of a Job of type batch or sysbatch, only the count of an existing group can change.",
      ),
      minItems: 1,
    }),
    meta: Type.Optional(stringMap("Metadata of the work. Programs get each entry as a variable K8S4R_META_<KEY>.")),
    update: Type.Optional(UpdatePolicy),
    paused: Type.Optional(Type.Boolean({ description: "Whether a rollout updates no further task." })),
    revisionHistoryLimit: Type.Optional(
      int32("Number of old revisions that are kept for a rollback.", { minimum: 1, maximum: 100, default: 10 }),
    ),
    periodic: Type.Optional(Periodic),
    parameterized: Type.Optional(Parameterized),
    payload: Type.Optional(
      Type.String({
        description: "Payload of a dispatched Job, in base64. Tasks with dispatchPayload get it as a file.",
        maxLength: maxPayloadLength,
      }),
    ),
  },
  { description: "Desired work." },
);

/** States of a Job and a TaskGroup. */
export const workState = (description: string) => choice(["pending", "running", "completed", "failed"], description);

const status = Type.Object(
  {
    status: Type.Optional(workState("Same as state. K8s4r's first release used this name.")),
    state: Type.Optional(
      workState(
        'pending: no task has started; running; completed: every task succeeded; failed: every task ended and at least one failed. (K8s4r\'s first release called completed "complete".)',
      ),
    ),
    statusDescription: Type.Optional(Type.String({ description: "Progress as readable text." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status reflects.")),
    createIndex: Type.Optional(int64("Kept for compatibility with K8s4r. Never written.")),
    modifyIndex: Type.Optional(int64("Kept for compatibility with K8s4r. Never written.")),
    totalTasks: Type.Optional(int32("Number of tasks.")),
    succeededTasks: Type.Optional(int32("Number of tasks that succeeded.")),
    failedTasks: Type.Optional(int32("Number of tasks that failed.")),
    lostTasks: Type.Optional(int32("Number of pending or running tasks whose robot has stopped reporting.")),
    lostSince: Type.Optional(time("Time at which the first of the lost tasks was lost.")),
    runningTasks: Type.Optional(int32("Number of running tasks.")),
    pendingTasks: Type.Optional(int32("Number of tasks that wait for a robot, for their robot's answer or for a restart.")),
    startedAt: Type.Optional(time("Start of the first task.")),
    completedAt: Type.Optional(time("End of the last task.")),
    taskGroups: Type.Optional(Type.Array(Type.String(), { description: "Names of the TaskGroups." })),
    tasks: Type.Optional(
      Type.Array(Type.String(), {
        description: "Kept for compatibility with K8s4r. Never written, because a list of all tasks is unbounded.",
      }),
    ),
    taskGroupSummary: Type.Optional(
      Type.Unsafe<
        Record<
          string,
          { queued?: number; complete?: number; failed?: number; running?: number; starting?: number; lost?: number }
        >
      >({
        type: "object",
        description: "Task counts by group.",
        additionalProperties: Type.Object({
          queued: Type.Optional(int32("Number of waiting tasks.")),
          complete: Type.Optional(int32("Number of tasks that succeeded.")),
          failed: Type.Optional(int32("Number of tasks that failed.")),
          running: Type.Optional(int32("Number of running tasks.")),
          starting: Type.Optional(int32("Kept for compatibility with K8s4r. Never written.")),
          lost: Type.Optional(int32("Number of tasks whose robot has stopped reporting.")),
        }),
      }),
    ),
    lastScheduleTime: Type.Optional(time("Last scheduled time for which a periodic Job created a Job or skipped it.")),
    rollout: Type.Optional(JobRollout),
    nextScheduleTime: Type.Optional(time("Next scheduled time of a periodic Job.")),
    activeJobs: Type.Optional(
      Type.Array(Type.String(), { description: "Jobs that a periodic or parameterized Job created and that have not ended." }),
    ),
    conditions: Type.Optional(
      conditions(
        "Completed, Failed, Lost, and SpecApplied (False: part of a spec change has no effect). For service and system also Progressing (False: the rollout failed) and Available (at least one task is running, and all are, apart from those that a rollout may update at the same time).",
      ),
    ),
  },
  { description: "Observed state of the work." },
);

/** Work for robots: groups of tasks. */
export const Job = defineResource({
  group,
  version,
  kind: "Job",
  plural: "jobs",
  shortNames: ["rjob"],
  description: "Work for robots: groups of tasks, each a program that runs on a robot. It ends when all of them have ended.",
  spec,
  status,
  columns: [
    { name: "Type", type: "string", jsonPath: ".spec.type" },
    { name: "Status", type: "string", jsonPath: ".status.status" },
    { name: "Total", type: "integer", jsonPath: ".status.totalTasks" },
    { name: "Succeeded", type: "integer", jsonPath: ".status.succeededTasks" },
    { name: "Failed", type: "integer", jsonPath: ".status.failedTasks" },
    { name: "Running", type: "integer", jsonPath: ".status.runningTasks" },
    { name: "Revision", type: "integer", jsonPath: ".status.rollout.revision", priority: 1 },
    { name: "Rollout", type: "string", jsonPath: ".status.rollout.phase", priority: 1 },
    { name: "Updated", type: "integer", jsonPath: ".status.rollout.updated", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Job = ObjectType<typeof Job>;
