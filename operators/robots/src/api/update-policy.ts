import { intOrStringSchema } from "@keelson/api-machinery/schema";
import { choice, duration, int32, partName, stringMap, time } from "@keelson/api-machinery/fields";
import { type Static, Type } from "typebox";

const numberOrPercentage = "^[0-9]+%?$";

const Wave = Type.Object(
  {
    name: partName("Name of the wave."),
    robotSelector: stringMap("Labels of the robots of this wave, as in the Job's robotSelector."),
  },
  { description: "Robots that are updated together." },
);

/** A time range in which tasks may be updated. */
export const MaintenanceWindow = Type.Object(
  {
    cron: Type.String({
      description: "Times at which the window opens: five fields of cron, or @daily and similar.",
      maxLength: 256,
    }),
    duration: duration("Time that the window stays open."),
    timeZone: Type.Optional(Type.String({ description: "Time zone of cron, such as Europe/Berlin. Default: UTC." })),
  },
  { description: "A time range in which tasks may be updated." },
);
export type MaintenanceWindow = Static<typeof MaintenanceWindow>;

/** How a changed Job of type service or system replaces its tasks. */
export const UpdatePolicy = Type.Object(
  {
    maxParallel: Type.Optional(
      intOrStringSchema({
        description:
          "Maximum number of tasks that are updated at the same time, or a percentage of the group's tasks, rounded up. Default: 1.",
        pattern: numberOrPercentage,
      }),
    ),
    minHealthyTime: Type.Optional(
      duration("Time that an updated task must run without a restart to be healthy. Default: 10s."),
    ),
    healthyDeadline: Type.Optional(
      duration("Time within which an updated task must be healthy, counted from the start of its update. Default: 5m."),
    ),
    progressDeadline: Type.Optional(
      duration("Time within which another task must become healthy; otherwise the rollout fails. Default: 10m."),
    ),
    canary: Type.Optional(
      int32("Number of tasks that are updated first. The rollout then waits for `keelson robots promote`. Default: 0.", {
        minimum: 0,
      }),
    ),
    autoPromote: Type.Optional(Type.Boolean({ description: "Promote canaries when all of them are healthy. Default: false." })),
    abortThreshold: Type.Optional(
      intOrStringSchema({
        description:
          "Number of updated tasks that may be unhealthy, or a percentage of the group's tasks, rounded down. The rollout fails with the next one. Default: 0.",
        pattern: numberOrPercentage,
      }),
    ),
    autoRevert: Type.Optional(
      Type.Boolean({
        description: "Return to the last revision whose rollout completed if a rollout fails. Default: false.",
      }),
    ),
    waves: Type.Optional(
      Type.Array(Wave, {
        description:
          "Order of the robots. A wave starts when no task of the waves before it is being updated. Robots in no wave come last.",
        maxItems: 64,
      }),
    ),
    maintenanceWindows: Type.Optional(
      Type.Array(MaintenanceWindow, {
        description: "Updates of tasks start only while one of these windows is open. An automatic revert ignores them.",
        maxItems: 64,
      }),
    ),
  },
  {
    description:
      "How a change of a Job of type service or system replaces its tasks. A group's policy overrides that of the Job, field by field.",
  },
);
export type UpdatePolicy = Static<typeof UpdatePolicy>;

/** How far a rollout is. */
const rolloutPhase = choice(
  ["progressing", "waiting", "completed", "failed", "reverting", "reverted"],
  "progressing; waiting: see message; completed: all tasks on online robots run the revision; failed; reverting, reverted: the revision before it is or was restored.",
);

/** Status fields that the rollouts of TaskGroups and Jobs have in common. */
const progress = {
  revision: int32("Revision that the tasks are updated to.", { minimum: 1 }),
  phase: rolloutPhase,
  reason: Type.Optional(Type.String({ description: "CamelCase reason for the phase." })),
  message: Type.Optional(Type.String({ description: "Progress, and why the rollout waits or failed." })),
  total: Type.Optional(int32("Number of tasks.")),
  updated: Type.Optional(int32("Number of tasks of the revision.")),
  healthy: Type.Optional(int32("Number of updated tasks that are healthy.")),
  unhealthy: Type.Optional(int32("Number of updated tasks that failed or did not become healthy in time.")),
  offline: Type.Optional(int32("Number of tasks that are updated when their robot returns.")),
};

/** Rollout of a TaskGroup. */
export const GroupRollout = Type.Object(
  {
    ...progress,
    progressAt: Type.Optional(time("Time at which a task last became healthy, or at which the rollout started or continued.")),
    updating: Type.Optional(
      Type.Array(
        Type.Object({
          task: Type.String({ description: "Name of the task in its group, and index of the copy: run/0." }),
          robot: Type.Optional(Type.String({ description: "Robot of the task before the update." })),
          since: time("Start of the update. Counted anew when its robot returns."),
          isOffline: Type.Optional(Type.Boolean({ description: "Whether the robot is not online." })),
          problem: Type.Optional(Type.String({ description: "Why the task is unhealthy." })),
        }),
        {
          description: "Tasks that are being updated and not healthy yet. A task is recorded here before it is stopped.",
          "x-kubernetes-list-type": "atomic",
        },
      ),
    ),
  },
  { description: "Progress of the latest rollout." },
);
export type GroupRollout = Static<typeof GroupRollout>;

/** Rollout of a Job. */
export const JobRollout = Type.Object(
  {
    ...progress,
    latestRevision: int32("Revision of the current spec.", { minimum: 1 }),
    stableRevision: int32("Last revision whose rollout completed.", { minimum: 0 }),
    previousStableRevision: Type.Optional(int32("Last revision whose rollout completed before the stable one.")),
    failedRevision: Type.Optional(int32("Revision whose rollout failed.")),
  },
  { description: "Progress of the latest rollout." },
);
export type JobRollout = Static<typeof JobRollout>;

/** What a TaskGroup knows of its Job's rollout. */
export const GroupRevision = Type.Object(
  {
    stable: int32("Last revision whose rollout completed. Tasks that are missing during a rollout are created from it.", {
      minimum: 0,
    }),
    isPaused: Type.Optional(Type.Boolean({ description: "Whether no further task is updated." })),
    isPromoted: Type.Optional(Type.Boolean({ description: "Whether the canaries are promoted." })),
    isRevert: Type.Optional(Type.Boolean({ description: "Whether a failed revision is being replaced." })),
  },
  { description: "How tasks of other revisions are replaced. The Job sets it." },
);
export type GroupRevision = Static<typeof GroupRevision>;

/** Revision of the Job that an object was created from. */
export const revision = int32("Revision of the Job that it was created from. Set for the types service and system.", {
  minimum: 1,
});
