import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { choice, int32, time } from "@keelson/api-machinery/fields";
import { Type } from "typebox";
import { group, version } from "./names.ts";

/** Signals that a TaskSignal can send. */
export const taskSignals = [
  "SIGHUP",
  "SIGINT",
  "SIGQUIT",
  "SIGKILL",
  "SIGUSR1",
  "SIGUSR2",
  "SIGALRM",
  "SIGTERM",
  "SIGCONT",
  "SIGSTOP",
  "SIGTSTP",
  "SIGWINCH",
] as const;

/** A signal that a TaskSignal can send. */
export type TaskSignalName = (typeof taskSignals)[number];

const spec = Type.Object(
  {
    task: Type.String({ description: "Name of the Task in the same namespace.", minLength: 1, maxLength: 253 }),
    signal: choice(taskSignals, "Signal that the task's program gets."),
  },
  {
    description: "The signal and its Task.",
    "x-kubernetes-validations": [{ rule: "self == oldSelf", message: "spec cannot be changed; create another TaskSignal" }],
  },
);

const status = Type.Object(
  {
    phase: Type.Optional(
      choice(
        ["Sent", "Delivered", "Failed"],
        "Sent: the robot has not confirmed it yet; Delivered: the program got the signal; Failed: see reason and message.",
      ),
    ),
    reason: Type.Optional(Type.String({ description: "CamelCase reason of a failure." })),
    message: Type.Optional(Type.String({ description: "Why it failed, or what happened." })),
    robot: Type.Optional(Type.String({ description: "Robot that the signal was sent to." })),
    taskUid: Type.Optional(Type.String({ description: "uid of the Task that the signal was sent to." })),
    attempt: Type.Optional(int32("Attempt of the Task that the signal was sent to.")),
    sentAt: Type.Optional(time("Time at which it was sent.")),
    finishedAt: Type.Optional(time("Time at which it was delivered or failed. It is deleted 10 minutes later.")),
  },
  { description: "Delivery of the signal." },
);

/** A signal for the program of a running task. It is delivered at most once. */
export const TaskSignal = defineResource({
  group,
  version,
  kind: "TaskSignal",
  plural: "tasksignals",
  shortNames: ["rsig"],
  description: "A signal for the program of a running task. It is delivered at most once.",
  spec,
  status,
  columns: [
    { name: "Task", type: "string", jsonPath: ".spec.task" },
    { name: "Signal", type: "string", jsonPath: ".spec.signal" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Robot", type: "string", jsonPath: ".status.robot" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type TaskSignal = ObjectType<typeof TaskSignal>;
