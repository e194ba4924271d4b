import { type Static, Type } from "typebox";
import { choice, duration, int32 } from "@keelson/api-machinery/fields";

/** When a program that ended is restarted on its robot. */
export const RestartPolicy = Type.Object(
  {
    attempts: Type.Optional(int32("Maximum number of restarts within interval.", { minimum: 0, maximum: 10_000 })),
    interval: Type.Optional(duration("Window in which restarts are counted. It starts with the first restart.")),
    delay: Type.Optional(duration("Delay before a restart.")),
    mode: Type.Optional(
      choice(["fail", "delay"], "What happens when attempts are used up: the task fails, or it waits for the next interval."),
    ),
  },
  {
    description:
      "When a failed program is restarted on its robot. A Job fills in missing fields: service 2 in 30m, otherwise 3 in 24h; delay 15s; mode fail.",
  },
);
export type RestartPolicy = Static<typeof RestartPolicy>;

/** When work moves to another robot. */
export const ReschedulePolicy = Type.Object(
  {
    attempts: Type.Optional(
      int32("Maximum number of moves within interval. Default: 1 for batch; service moves without limit.", { minimum: 0 }),
    ),
    interval: Type.Optional(duration("Window in which moves are counted. It starts with the first move. Default: 24h.")),
    delay: Type.Optional(duration("Delay before the first move.", { default: "30s" })),
    delayFunction: Type.Optional(
      choice(
        ["constant", "exponential", "fibonacci"],
        "How delay grows with each move. It starts anew after an attempt that ran longer than maxDelay.",
        { default: "exponential" },
      ),
    ),
    maxDelay: Type.Optional(duration("Maximum delay.", { default: "1h" })),
    unlimited: Type.Optional(Type.Boolean({ description: "Move without limit; attempts and interval are ignored." })),
  },
  {
    description:
      "When a task moves to another robot: after its restart policy is used up, and after its robot has stopped reporting (see disconnect). Without a policy, a failed task does not move.",
  },
);
export type ReschedulePolicy = Static<typeof ReschedulePolicy>;

/** What happens to work whose robot stops reporting. */
export const DisconnectPolicy = Type.Object(
  {
    lostAfter: Type.Optional(
      duration(
        "Time without contact after which the task is lost. With onRobot stop, also the duration of the robot's lease.",
        {
          default: "5m",
        },
      ),
    ),
    onRobot: Type.Optional(
      choice(
        ["stop", "keep"],
        "What the robot does without contact. stop: it stops the program before its lease expires, so that the task never runs twice. keep: the program continues, possibly alongside its replacement.",
        { default: "stop" },
      ),
    ),
    replace: Type.Optional(
      Type.Boolean({
        description:
          "Whether a lost task moves to another robot, within reschedulePolicy. Without one, it moves immediately and without limit.",
        default: true,
      }),
    ),
    reconcile: Type.Optional(
      choice(
        ["keepOriginal", "keepReplacement"],
        "With onRobot keep: which attempt remains when the robot returns. The other one is stopped.",
        { default: "keepOriginal" },
      ),
    ),
  },
  {
    description:
      "What happens to a task whose robot stops reporting. Without a policy, the task waits for its robot; with a reschedulePolicy, all fields have their defaults.",
  },
);
export type DisconnectPolicy = Static<typeof DisconnectPolicy>;

/** Disk that the tasks of a group share. */
export const EphemeralDisk = Type.Object(
  {
    migrate: Type.Optional(Type.Boolean({ description: "Move the data with the work. Stored; it has no effect yet." })),
    sizeMB: Type.Optional(int32("Size in MiB. Default of resources.disk of the group's tasks.", { minimum: 0 })),
    sticky: Type.Optional(Type.Boolean({ description: "Prefer the robot that holds the data. Stored; it has no effect yet." })),
  },
  { description: "Disk that each task of a group needs." },
);
