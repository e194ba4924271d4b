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
    attempts: Type.Optional(int32("Maximum number of moves within interval.", { minimum: 0 })),
    interval: Type.Optional(duration("Window in which moves are counted.")),
    delay: Type.Optional(duration("Delay before the first move.", { default: "30s" })),
    delayFunction: Type.Optional(
      choice(["constant", "exponential", "fibonacci"], "How delay grows with each move.", { default: "exponential" }),
    ),
    maxDelay: Type.Optional(duration("Maximum delay.", { default: "1h" })),
    unlimited: Type.Optional(Type.Boolean({ description: "Move without limit; attempts and interval are ignored." })),
  },
  { description: "When work moves to another robot. Accepted for compatibility with K8s4r; it has no effect yet." },
);

/** Disk that the tasks of a group share. */
export const EphemeralDisk = Type.Object(
  {
    migrate: Type.Optional(Type.Boolean({ description: "Move the data with the work." })),
    sizeMB: Type.Optional(int32("Size in megabytes.", { minimum: 0 })),
    sticky: Type.Optional(Type.Boolean({ description: "Prefer the robot that holds the data." })),
  },
  { description: "Disk that the tasks of a group share. Accepted for compatibility with K8s4r; it has no effect yet." },
);
