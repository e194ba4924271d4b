import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { Constraint } from "./constraint.ts";
import { choice, conditions, int32, int64, listMap, partName, stringMap, time } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { EphemeralDisk, ReschedulePolicy, RestartPolicy } from "./policies.ts";
import { taskDefinitions } from "./task-definition.ts";

/** What kind of work a Job is. */
export const jobType = choice(
  ["service", "batch", "system"],
  "What kind of work it is: service runs until it is deleted, batch and system run to their end. It decides the restart policy where a group names none.",
  {
    default: "batch",
  },
);

/** Which work goes first. */
export const priority = int32("Which work goes first, from 0 to 100.", { minimum: 0, maximum: 100, default: 50 });

/** Which robots may do work. */
export const robotSelector = stringMap(
  "Labels that a robot must have in its spec.labels, all of them. Empty: any robot of the namespace.",
);

/** How many copies of a group there are. */
export const count = int32("How many copies of the group run, spread over the robots.", { minimum: 1, maximum: 10_000 });

const TaskGroupTemplate = Type.Object(
  {
    name: partName("Name of the group within the Job."),
    count,
    tasks: taskDefinitions,
    constraints: Type.Optional(Type.Array(Constraint, { description: "Demands on the robots of all tasks of the group." })),
    restartPolicy: Type.Optional(RestartPolicy),
    reschedulePolicy: Type.Optional(ReschedulePolicy),
    ephemeralDisk: Type.Optional(EphemeralDisk),
    meta: Type.Optional(stringMap("Anything you want to note about the group.")),
  },
  { description: "A group of tasks and how many copies of it run." },
);
export type TaskGroupTemplate = Static<typeof TaskGroupTemplate>;

const spec = Type.Object(
  {
    name: Type.String({ description: "Name of the work, as a rule that of the object." }),
    robotSelector: Type.Optional(robotSelector),
    type: Type.Optional(jobType),
    datacenters: Type.Optional(Type.Array(Type.String(), { description: "Kept for manifests of K8s4r; not read." })),
    priority: Type.Optional(priority),
    taskGroups: Type.Array(TaskGroupTemplate, {
      ...listMap("name", "The groups of tasks. Once a group's TaskGroup is made, only its count can be changed."),
      minItems: 1,
    }),
    meta: Type.Optional(stringMap("Anything you want to note about the work.")),
  },
  { description: "The work to do." },
);

/** States of a Job and a TaskGroup. */
export const workState = (description: string) => choice(["pending", "running", "completed", "failed"], description);

const status = Type.Object(
  {
    status: Type.Optional(workState("The same as state, under the name that K8s4r first gave it.")),
    state: Type.Optional(
      workState(
        'pending: nothing runs yet; running; completed: every task ended well; failed: every task ended and at least one failed. (K8s4r\'s first release called completed "complete".)',
      ),
    ),
    statusDescription: Type.Optional(Type.String({ description: "How far the work is, for people." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status is about.")),
    createIndex: Type.Optional(int64("Kept for K8s4r; never written.")),
    modifyIndex: Type.Optional(int64("Kept for K8s4r; never written.")),
    totalTasks: Type.Optional(int32("How many tasks there are.")),
    succeededTasks: Type.Optional(int32("How many ended well.")),
    failedTasks: Type.Optional(int32("How many failed.")),
    runningTasks: Type.Optional(int32("How many run.")),
    pendingTasks: Type.Optional(int32("How many wait: for a robot, for their robot to answer, or to be started again.")),
    startedAt: Type.Optional(time("When the first task started.")),
    completedAt: Type.Optional(time("When the last task ended.")),
    taskGroups: Type.Optional(Type.Array(Type.String(), { description: "Names of the TaskGroups." })),
    tasks: Type.Optional(
      Type.Array(Type.String(), { description: "Kept for K8s4r; never written, a list of all tasks has no bound." }),
    ),
    taskGroupSummary: Type.Optional(
      Type.Unsafe<
        Record<
          string,
          { queued?: number; complete?: number; failed?: number; running?: number; starting?: number; lost?: number }
        >
      >({
        type: "object",
        description: "Counts of tasks by group.",
        additionalProperties: Type.Object({
          queued: Type.Optional(int32("Wait.")),
          complete: Type.Optional(int32("Ended well.")),
          failed: Type.Optional(int32("Failed.")),
          running: Type.Optional(int32("Run.")),
          starting: Type.Optional(int32("Kept for K8s4r; never written.")),
          lost: Type.Optional(int32("Kept for K8s4r; never written.")),
        }),
      }),
    ),
    conditions: Type.Optional(
      conditions("Completed, Failed, and SpecApplied (False: a change of spec that cannot take effect)."),
    ),
  },
  { description: "How the work goes." },
);

/** Work for robots: groups of tasks. */
export const Job = defineResource({
  group,
  version,
  kind: "Job",
  plural: "jobs",
  shortNames: ["rjob"],
  description: "Work for robots: groups of tasks, each a program that runs on a robot. It is done when all of them are.",
  spec,
  status,
  columns: [
    { name: "Type", type: "string", jsonPath: ".spec.type" },
    { name: "Status", type: "string", jsonPath: ".status.status" },
    { name: "Total", type: "integer", jsonPath: ".status.totalTasks" },
    { name: "Succeeded", type: "integer", jsonPath: ".status.succeededTasks" },
    { name: "Failed", type: "integer", jsonPath: ".status.failedTasks" },
    { name: "Running", type: "integer", jsonPath: ".status.runningTasks" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Job = ObjectType<typeof Job>;
