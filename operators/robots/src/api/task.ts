import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { choice, conditions, int32, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { assignedDevices } from "./device.ts";
import { jobType, preemptionPolicy, priority, robotSelector } from "./job.ts";
import { group, version } from "./names.ts";
import { maxPayloadLength } from "./parent-job.ts";
import { DisconnectPolicy, ReschedulePolicy } from "./policies.ts";
import { initTasks, program, taskPreferences } from "./task-definition.ts";
import { AllocatedResources } from "./task-resources.ts";
import { revision } from "./update-policy.ts";

const spec = Type.Object(
  {
    jobName: Type.Optional(Type.String({ description: "Name of the Job that the task belongs to." })),
    taskGroupName: Type.Optional(Type.String({ description: "Name of the TaskGroup that the task belongs to." })),
    name: Type.String({ description: "Name of the task within its group.", minLength: 1 }),
    ...program,
    ...taskPreferences,
    initTasks: Type.Optional(initTasks),
    type: Type.Optional(jobType),
    robotSelector: Type.Optional(robotSelector),
    priority: Type.Optional(priority),
    preemptionPolicy: Type.Optional(preemptionPolicy),
    meta: Type.Optional(stringMap("Metadata. The program gets each entry as a variable K8S4R_META_<KEY>.")),
    payload: Type.Optional(
      Type.String({ description: "Payload of a dispatched Job, in base64.", maxLength: maxPayloadLength }),
    ),
    reschedulePolicy: Type.Optional(ReschedulePolicy),
    disconnect: Type.Optional(DisconnectPolicy),
    revision: Type.Optional(revision),
    preferredRobot: Type.Optional(
      Type.String({
        description: "Robot that is chosen if the task fits. A rollout sets it to the robot of the task before the update.",
        maxLength: 63,
      }),
    ),
    targetDevices: Type.Optional(
      assignedDevices("Devices of targetRobot that the task got. The scheduler sets it together with targetRobot."),
    ),
    targetRobot: Type.Optional(
      Type.String({
        description: "Robot that runs the task. The scheduler sets it; set it yourself to pin the task to a robot.",
        maxLength: 63,
      }),
    ),
  },
  { description: "A program and its requirements on the robot." },
);

const status = Type.Object(
  {
    state: Type.Optional(
      choice(
        ["", "pending", "dispatching", "running", "exited", "completed", "failed"],
        "pending: waits for a robot; dispatching: sent to its robot, not yet confirmed; running; exited: ended, waits for its restart; completed; failed.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "Why the task is in this state." })),
    reason: Type.Optional(Type.String({ description: "CamelCase reason for the state." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status reflects.")),
    attempt: Type.Optional(int32("Number of the current attempt, from 1. Reports about other attempts are ignored.")),
    seq: Type.Optional(int32("Sequence number of the last report that was stored for this attempt.")),
    dispatchedAt: Type.Optional(time("Time of this attempt's dispatch.")),
    startedAt: Type.Optional(time("Start of the program, by the robot's clock.")),
    runningSince: Type.Optional(
      time("Time since which the program runs without a restart, by the operator's clock. Unset while it does not run."),
    ),
    health: Type.Optional(
      choice(["passing", "failing"], "Whether the checks of the task's services pass. Unset: unknown, or it has none."),
    ),
    passingSince: Type.Optional(time("Time since which they pass, by the operator's clock.")),
    finishedAt: Type.Optional(time("End of the program, by the robot's clock.")),
    exitCode: Type.Optional(int32("Exit code of the program; 128 plus the signal number if a signal ended it.")),
    signal: Type.Optional(int32("Number of the signal that ended the program.")),
    restartCount: Type.Optional(int32("Number of restarts.")),
    lastRestartTime: Type.Optional(time("Time of the last restart.")),
    restartAt: Type.Optional(time("Time of the next restart.")),
    restartWindowStart: Type.Optional(time("Start of the restart policy's current interval.")),
    restartsInWindow: Type.Optional(int32("Number of restarts in the current interval.")),
    moves: Type.Optional(int32("Number of moves to another robot.")),
    consecutiveMoves: Type.Optional(int32("Number of moves that determine the delay of the next one.")),
    movesInWindow: Type.Optional(int32("Number of moves in the current interval of the reschedule policy.")),
    moveWindowStart: Type.Optional(time("Start of the reschedule policy's current interval.")),
    moveAt: Type.Optional(time("Time of the next move.")),
    movedFrom: Type.Optional(Type.String({ description: "Robot that the task was last moved from." })),
    lease: Type.Optional(
      Type.Object(
        {
          attempt: int32("Attempt that the lease is for. Attempts increase across robots, so they are the lease's epoch."),
          grantsUntil: time("Time until which the lease may be renewed without recording a later time here first."),
          durationMs: Type.Optional(int64("Duration of the lease in milliseconds: spec.disconnect.lostAfter at the dispatch.")),
        },
        {
          description:
            "Lease of the robot. It runs the program only while it holds the lease. Unset if its agent does not enforce leases.",
        },
      ),
    ),
    displaced: Type.Optional(
      Type.Object(
        {
          robot: Type.String({ description: "Robot of the attempt." }),
          attempt: int32("Number of the attempt."),
          stop: Type.Optional(Type.Boolean({ description: "Whether the robot is asked to stop it." })),
          devices: Type.Optional(assignedDevices("Its devices.")),
        },
        { description: "Attempt on another robot whose program may still be running." },
      ),
    ),
    preemption: Type.Optional(
      Type.Object(
        {
          robot: Type.String({ description: "Robot whose room the task waits for." }),
          tasks: Type.Array(
            Type.Object({
              name: Type.String({ description: "Name of the Task." }),
              uid: Type.String({ description: "UID of the Task." }),
              attempt: int32("Attempt that is stopped."),
            }),
            {
              description:
                "Tasks of lower priority that are stopped. Empty if tasks that are leaving the robot make enough room.",
              "x-kubernetes-list-type": "atomic",
            },
          ),
        },
        {
          description:
            "Room that this waiting task has reserved on a robot. Other tasks do not get it unless their priority is higher.",
        },
      ),
    ),
    removedAttempt: Type.Optional(int32("Displaced attempt that its robot has removed.")),
    adopted: Type.Optional(
      Type.Object(
        {
          robot: Type.String({ description: "Robot of the attempt." }),
          attempt: int32("Number of the attempt."),
          devices: Type.Optional(assignedDevices("Its devices.")),
        },
        { description: "Earlier attempt whose program continues as the current attempt instead of starting again." },
      ),
    ),
    permanent: Type.Optional(Type.Boolean({ description: "Whether the failure would repeat itself on this robot." })),
    logs: Type.Optional(Type.String({ description: "Kept for compatibility with K8s4r. See logsStdout and logsStderr." })),
    logsStdout: Type.Optional(Type.String({ description: "Last 4 KiB of standard output." })),
    logsStderr: Type.Optional(Type.String({ description: "Last 4 KiB of standard error." })),
    events: Type.Optional(
      Type.Array(
        Type.Object({
          type: Type.Optional(Type.String({ description: "Type of the event." })),
          time: Type.Optional(time("Time of the event, by the robot's clock.")),
          displayMessage: Type.Optional(Type.String({ description: "Description of the event." })),
          details: Type.Optional(stringMap("Details, such as the attempt.")),
        }),
        { description: "Last 20 events that the robot reported.", "x-kubernetes-list-type": "atomic" },
      ),
    ),
    allocatedResources: Type.Optional(AllocatedResources),
    conditions: Type.Optional(
      conditions(
        "Scheduled: the task is bound to a robot, or why not. Lost: its robot has stopped reporting, so its state is unknown. Released: its robot has removed the task. Preempted: a task of higher priority has stopped it.",
      ),
    ),
  },
  { description: "Observed state of the task." },
);

/** A program that runs on one robot. */
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
    { name: "Revision", type: "integer", jsonPath: ".spec.revision", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Task = ObjectType<typeof Task>;
