import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, choice, conditions, duration, int32, int64, listMap, partName, time } from "@keelson/api-machinery/fields";
import { backupEncryption, backupStorage } from "./backup-parts.ts";
import { group, version } from "./names.ts";
import { appTls } from "./tls.ts";
import { userFields } from "./users.ts";
import { disruptions, errorClasses, GroupPart, named, scenario } from "./parts.ts";

/** Priorities of task types, from P0 to P3 as in the original. */
export const priorities = { k8s_resources: 30, middleware_config: 20, storage_volume: 10, version_upgrade: 0 } as const;

/** Type of a task. */
export type TaskType = keyof typeof priorities;

/** States of a task. */
export const taskStates = [
  "pending",
  "in_progress",
  "retry_pending",
  "cancelling",
  "done",
  "failed",
  "skipped",
  "cancelled",
] as const;
/** State of a {@link ChangeTask}. */
export type TaskState = (typeof taskStates)[number];

/** A change to one aspect of one component. */
export const ChangeTask = Type.Object(
  {
    taskId: Type.String({ description: "Name of the task: task-<generation>-<nn>." }),
    type: choice(Object.keys(priorities) as TaskType[], "Aspect that the task changes."),
    scenario,
    description: Type.String({ description: "Human-readable description of the change." }),
    priority: int32("Priority from 0 (P0) to 30 (P3)."),
    stage: int32("Stage of the task. Tasks of a stage run concurrently; lower stages run first."),
    targetComponent: Type.String({ description: "Name of the component within the App." }),
    desiredSpec: anyMap("The part of the Component's spec that the task sets."),
    baseSpec: Type.Optional(anyMap("The previous value of that part, restored if the task is cancelled.")),
    dependencies: Type.Array(Type.String(), { description: "Tasks that must be done first." }),
    status: choice(taskStates, "State of the task."),
    reason: Type.Optional(Type.String({ description: "Machine-readable reason of a failed, skipped or cancelled task." })),
    retryCount: int32("Number of retries so far."),
    maxRetries: int32("Maximum retries after the first attempt."),
    attempt: int32("Number of the current attempt, from 1. Manual retries continue the count."),
    timeout: Type.String({ description: "Timeout of an attempt." }),
    token: Type.Optional(Type.String({ description: "Token of the operation last requested from the Component." })),
    revert: Type.Optional(Type.Boolean({ description: "Whether the change is being reverted." })),
    startedAt: Type.Optional(time("When the attempt started.")),
    deadlineAt: Type.Optional(time("When the attempt times out.")),
    retryAt: Type.Optional(time("When the next attempt starts.")),
    completedAt: Type.Optional(time("When the task finished.")),
    predicted: Type.Optional(
      disruptions("Disruptions predicted when the task was planned. Missing if they depend on the program."),
    ),
    observed: Type.Optional(
      disruptions(
        "Disruptions that the Groups counted, including earlier attempts and a revert unless another task ran in between.",
      ),
    ),
    errorClass: Type.Optional(choice(errorClasses, "Class of the failure.")),
    error: Type.Optional(Type.String({ description: "Human-readable error message." })),
  },
  { description: "A change to one aspect of one component." },
);
export type ChangeTask = Static<typeof ChangeTask>;

const plan = Type.Object(
  {
    id: Type.String({ description: "Name of the plan." }),
    generation: int64("Generation of the spec that the plan applies."),
    startedAt: time("When the plan was created."),
    finishedAt: Type.Optional(time("When the last task finished.")),
    outcome: Type.Optional(choice(["Succeeded", "Failed", "Cancelled"], "Outcome of the plan.")),
    approval: Type.Optional(choice(["Required", "Approved"], "Whether the plan waits for approval. Missing if it needs none.")),
    report: Type.Optional(
      Type.Object(
        {
          predicted: Type.Optional(disruptions("Sum over the tasks. Missing if a task was not predicted.")),
          observed: disruptions("Sum over the tasks."),
          asPredicted: Type.Optional(
            Type.Boolean({ description: "Whether a successful plan restarted and handed over as often as predicted." }),
          ),
        },
        { description: "Predicted and observed disruptions of the finished plan." },
      ),
    ),
    tasks: Type.Array(ChangeTask, { ...listMap("taskId", "Tasks in order of execution."), maxItems: 500 }),
  },
  { description: "The current or last change." },
);
/** The current or last change of an App. */
export type Plan = Static<typeof plan>;

const spec = Type.Object(
  {
    plugin: named("The plugin for this middleware.", "Name of the plugin."),
    runtime: named("The program to run.", "Name of the program in the plugin."),
    config: Type.Optional(
      anyMap("Parameters for all components, either under the plugin's key (redisConfig) or at the top level."),
    ),
    components: Type.Optional(
      Type.Array(
        Type.Object({
          name: partName("Name of a component of the plugin.", 40),
          config: Type.Optional(anyMap("Parameters of this component. They override those of the App.")),
          groups: Type.Optional(Type.Array(GroupPart, listMap("name", "Overrides of the plugin's groups."))),
        }),
        listMap("name", "Overrides of the plugin's components."),
      ),
    ),
    stopped: Type.Optional(Type.Boolean({ description: "Stops all Pods and keeps their volumes." })),
    deletionPolicy: Type.Optional(
      choice(
        ["Retain", "Snapshot", "Delete"],
        "What happens to the volumes when the App is deleted: they are kept, deleted after a last Backup, or deleted. Default: Retain.",
      ),
    ),
    changePolicy: Type.Optional(
      Type.Object(
        {
          order: Type.Optional(
            choice(["p0-last", "p0-first"], "Whether upgrades run after all other tasks, or first.", { default: "p0-last" }),
          ),
          onFailure: Type.Optional(
            choice(["stop", "skip-dependents"], "What happens to the remaining tasks after a failure.", { default: "stop" }),
          ),
          timeout: Type.Optional(duration("Timeout of an attempt of a task. Default: that of the operator, 300s.")),
          approval: Type.Optional(
            choice(["auto", "manual"], "Whether a plan that changes an existing component waits for approval.", {
              default: "auto",
            }),
          ),
          maxRetries: Type.Optional(
            int32("Maximum retries of a task after its first attempt. Default: that of the operator, 3.", {
              minimum: 0,
              maximum: 100,
            }),
          ),
        },
        { description: "Policy for changes.", default: {} },
      ),
    ),
    monitoring: Type.Optional(
      Type.Object(
        {
          enabled: Type.Optional(
            Type.Boolean({ description: "Exports metrics of the App and of its programs. Default: false." }),
          ),
          port: Type.Optional(
            int32("Without effect: Pods need no exporter, and the operator's own address serves their metrics.", {
              minimum: 1,
              maximum: 65_535,
            }),
          ),
          interval: Type.Optional(
            duration(
              "Minimum time between two reads of a program's metrics. Scrapes in between get the same values. Default: each scrape reads.",
            ),
          ),
        },
        { description: "Export of metrics at the operator's /metrics." },
      ),
    ),
    ...userFields,
    tls: Type.Optional(appTls),
    backup: Type.Optional(
      Type.Object(
        {
          enabled: Type.Optional(Type.Boolean({ description: "Enables scheduled backups." })),
          schedule: Type.Optional(Type.String({ description: "Schedule in cron syntax.", pattern: "^(\\S+\\s+){4}\\S+$" })),
          timeZone: Type.Optional(Type.String({ description: "Time zone of the schedule. Default: UTC.", maxLength: 100 })),
          retention: Type.Optional(int32("Number of backups to keep. Default: 7.", { minimum: 1 })),
          storage: Type.Optional(backupStorage),
          encryption: Type.Optional(backupEncryption),
          log: Type.Optional(
            Type.Boolean({
              description: "Archives the log continuously, for recovery to any time since the oldest backup. Default: false.",
            }),
          ),
          verify: Type.Optional(
            Type.Boolean({ description: "Restores each backup into a scratch App and compares it. Default: false." }),
          ),
        },
        {
          description:
            "Scheduled backups, by a BackupSchedule with the name of the App. Without storage they go to a volume <app>-backups, which is created.",
        },
      ),
    ),
  },
  { description: "Desired state of the middleware." },
);

const status = Type.Object(
  {
    phase: Type.Optional(
      choice(
        ["Pending", "Provisioning", "Running", "Updating", "Degraded", "Failed", "Stopped", "Deleting"],
        "Phase of the App.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "Human-readable progress." })),
    observedGeneration: Type.Optional(int64("Most recently observed generation of the spec.")),
    acceptedGeneration: Type.Optional(int64("Most recently planned generation of the spec.")),
    pendingGeneration: Type.Optional(int64("Generation that is waiting for the current plan to finish.")),
    pendingChanges: Type.Optional(
      Type.Array(Type.String(), {
        description: "Preview of the tasks for the pending generation, if the current plan succeeds.",
        maxItems: 500,
      }),
    ),
    deletion: Type.Optional(
      Type.Object(
        {
          stopDeadlineAt: Type.Optional(time("When Pods that have not stopped are deleted anyway.")),
          backup: Type.Optional(
            Type.String({ description: "Name of the last Backup; with several groups, of one that has not completed." }),
          ),
          backupCompleted: Type.Optional(
            Type.Boolean({ description: "Whether the last Backup of every group with data has completed." }),
          ),
          backedUpGroups: Type.Optional(
            Type.Array(Type.String(), {
              description: "Groups whose last Backup has completed. Snapshot deletes only their volumes.",
              maxItems: 500,
            }),
          ),
          stopped: Type.Optional(Type.Boolean({ description: "Whether the Pods have stopped." })),
        },
        { description: "Progress of the deletion." },
      ),
    ),
    pausedAt: Type.Optional(time("When changes were paused.")),
    version: Type.Optional(Type.String({ description: "Version that the programs report." })),
    components: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the component." }),
          ready: Type.Boolean({ description: "Whether all Pods of the component are ready." }),
          message: Type.Optional(Type.String({ description: "Human-readable progress." })),
        }),
        listMap("name", "State of the components."),
      ),
    ),
    plan: Type.Optional(plan),
    control: Type.Optional(
      Type.Object(
        {
          cancel: Type.Optional(Type.String({ description: "Hash of the last processed cancel-control annotation." })),
          retry: Type.Optional(Type.String({ description: "Hash of the last processed retry-control annotation." })),
          approve: Type.Optional(Type.String({ description: "Hash of the last processed approve annotation." })),
          result: Type.Optional(Type.String({ description: "Results of the last control annotations, as JSON." })),
        },
        { description: "Last processed control annotations." },
      ),
    ),
    conditions: Type.Optional(conditions("Accepted, Synced, Ready and Warning.")),
  },
  { description: "Observed state of the App." },
);

/** Stateful middleware and the plan that applies changes to it. */
export const App = defineResource({
  group,
  version,
  kind: "App",
  plural: "apps",
  shortNames: ["mwapp"],
  description: "Stateful middleware. A change to its spec becomes a plan of tasks that are executed in order.",
  spec,
  status,
  columns: [
    { name: "Plugin", type: "string", jsonPath: ".spec.plugin.name" },
    { name: "Version", type: "string", jsonPath: ".status.version" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Message", type: "string", jsonPath: ".status.message" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type App = ObjectType<typeof App>;
/** Observed state of an App. */
export type AppStatus = Static<typeof status>;
