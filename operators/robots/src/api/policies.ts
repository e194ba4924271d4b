import { type Static, Type } from "typebox";
import { choice, duration, int32 } from "@keelson/api-machinery/fields";

/** When a program that failed is started again. */
export const RestartPolicy = Type.Object(
  {
    attempts: Type.Optional(int32("How often the program is started again within interval.", { minimum: 0, maximum: 10_000 })),
    interval: Type.Optional(duration("The window in which attempts are counted; it begins with the first of them.")),
    delay: Type.Optional(duration("How long to wait before starting again.")),
    mode: Type.Optional(
      choice(["fail", "delay"], "What happens when attempts are used up: the task has failed, or waits for the next interval."),
    ),
  },
  {
    description:
      "When a program that failed is started again on its robot. A Job fills in what is left out: service 2 in 30m, else 3 in 24h; delay 15s; mode fail.",
  },
);
export type RestartPolicy = Static<typeof RestartPolicy>;

/** How work is moved to another robot. */
export const ReschedulePolicy = Type.Object(
  {
    attempts: Type.Optional(int32("How often work is moved within interval.", { minimum: 0 })),
    interval: Type.Optional(duration("The window in which attempts are counted.")),
    delay: Type.Optional(duration("How long to wait before the first move.", { default: "30s" })),
    delayFunction: Type.Optional(
      choice(["constant", "exponential", "fibonacci"], "How delay grows from move to move.", { default: "exponential" }),
    ),
    maxDelay: Type.Optional(duration("The longest delay.", { default: "1h" })),
    unlimited: Type.Optional(Type.Boolean({ description: "Move as often as it takes; attempts and interval are not read." })),
  },
  { description: "How work is moved to another robot. Kept for manifests of K8s4r: nothing acts on it yet." },
);

/** Disk that the tasks of a group share. */
export const EphemeralDisk = Type.Object(
  {
    migrate: Type.Optional(Type.Boolean({ description: "Take the data along when the work moves." })),
    sizeMB: Type.Optional(int32("Size in megabytes.", { minimum: 0 })),
    sticky: Type.Optional(Type.Boolean({ description: "Prefer the robot that has the data." })),
  },
  { description: "Disk that the tasks of a group share. Kept for manifests of K8s4r: nothing acts on it yet." },
);
