import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { choice, conditions, int32, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { priority, robotSelector } from "./job.ts";
import { group, version } from "./names.ts";
import { program } from "./task-definition.ts";
import { AllocatedResources } from "./task-resources.ts";

const spec = Type.Object(
  {
    jobName: Type.Optional(Type.String({ description: "Name of the Job that this task is of." })),
    taskGroupName: Type.Optional(Type.String({ description: "Name of the TaskGroup that this task is of." })),
    name: Type.String({ description: "Name of the task within its group.", minLength: 1 }),
    ...program,
    robotSelector: Type.Optional(robotSelector),
    priority: Type.Optional(priority),
    targetRobot: Type.Optional(
      Type.String({
        description: "The robot that runs the task. Set by the scheduler, or by you to choose one yourself.",
        maxLength: 63,
      }),
    ),
  },
  { description: "A program and what it needs of its robot." },
);

const status = Type.Object(
  {
    state: Type.Optional(
      choice(
        ["", "pending", "dispatching", "running", "exited", "completed", "failed"],
        "pending: waits for a robot; dispatching: its robot is being told; running; exited: failed and waits to be started again; completed; failed.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "Why the task is in this state, for people." })),
    reason: Type.Optional(Type.String({ description: "The same in one CamelCase word." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status is about.")),
    attempt: Type.Optional(
      int32("Which attempt at the task this is, from 1. What a robot reports of another attempt is not taken."),
    ),
    seq: Type.Optional(int32("Number of the last report that was taken of this attempt.")),
    dispatchedAt: Type.Optional(time("When this attempt was given to the robot.")),
    startedAt: Type.Optional(time("When the program started, by the robot's clock.")),
    finishedAt: Type.Optional(time("When the program ended, by the robot's clock.")),
    exitCode: Type.Optional(int32("The program's exit code. 128 and the signal's number when a signal ended it.")),
    signal: Type.Optional(int32("The signal that ended the program.")),
    restartCount: Type.Optional(int32("How often the program was started again.")),
    lastRestartTime: Type.Optional(time("When it was last started again.")),
    restartAt: Type.Optional(time("When it is to be started again.")),
    restartWindowStart: Type.Optional(time("When the present interval of the restart policy began.")),
    restartsInWindow: Type.Optional(int32("Restarts in that interval.")),
    logs: Type.Optional(Type.String({ description: "Kept for K8s4r; see logsStdout and logsStderr." })),
    logsStdout: Type.Optional(Type.String({ description: "The end of what the program printed." })),
    logsStderr: Type.Optional(Type.String({ description: "The end of what it printed as errors." })),
    events: Type.Optional(
      Type.Array(
        Type.Object({
          type: Type.Optional(Type.String({ description: "What happened." })),
          time: Type.Optional(time("When, by the robot's clock.")),
          displayMessage: Type.Optional(Type.String({ description: "What happened, for people." })),
          details: Type.Optional(stringMap("More about it.")),
        }),
        { description: "The last 20 things that the robot reported.", "x-kubernetes-list-type": "atomic" },
      ),
    ),
    allocatedResources: Type.Optional(AllocatedResources),
    conditions: Type.Optional(
      conditions("Scheduled: a robot is chosen, or why none is. Released: nothing of the task is left on its robot."),
    ),
  },
  { description: "How the task goes." },
);

/** A program that runs once on one robot. */
export const Task = defineResource({
  group,
  version,
  kind: "Task",
  plural: "tasks",
  shortNames: ["rtask"],
  description: "A program that runs on one robot.",
  spec,
  status,
  columns: [
    { name: "Job", type: "string", jsonPath: ".spec.jobName" },
    { name: "Robot", type: "string", jsonPath: ".spec.targetRobot" },
    { name: "Driver", type: "string", jsonPath: ".spec.driver" },
    { name: "State", type: "string", jsonPath: ".status.state" },
    { name: "ExitCode", type: "integer", jsonPath: ".status.exitCode" },
    { name: "Restarts", type: "integer", jsonPath: ".status.restartCount" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Task = ObjectType<typeof Task>;
