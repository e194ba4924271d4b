import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, choice, conditions, duration, int32, int64, listMap, partName, time } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { errorClasses, GroupPart, named, scenario } from "./parts.ts";

/** What a task changes. The numbers are those of the original: P0 to P3. */
export const priorities = { k8s_resources: 30, middleware_config: 20, storage_volume: 10, version_upgrade: 0 } as const;

/** Types of tasks. */
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
export type TaskState = (typeof taskStates)[number];

/** A change of one aspect of one component. */
export const ChangeTask = Type.Object(
  {
    taskId: Type.String({ description: "task-<generation>-<nn>." }),
    type: choice(Object.keys(priorities) as TaskType[], "Which aspect it changes."),
    scenario,
    description: Type.String({ description: "What changes, for people." }),
    priority: int32("0 (P0) to 30 (P3)."),
    stage: int32("Tasks of one stage run together; lower ones come first."),
    targetComponent: Type.String({ description: "Name of the component within the App." }),
    desiredSpec: anyMap("The part of the Component's spec that it sets."),
    baseSpec: Type.Optional(anyMap("What that part was before: what a cancelled task goes back to.")),
    dependencies: Type.Array(Type.String(), { description: "Tasks that have to be done before." }),
    status: choice(taskStates, "How far it is."),
    reason: Type.Optional(Type.String({ description: "Why it is failed, skipped or cancelled, in one word." })),
    retryCount: int32("How many retries there were."),
    maxRetries: int32("How many there may be, after the first attempt."),
    attempt: int32("Which attempt runs, from 1; manual retries go on counting."),
    timeout: Type.String({ description: "How long an attempt may take." }),
    token: Type.Optional(Type.String({ description: "What the Component was last asked with." })),
    revert: Type.Optional(Type.Boolean({ description: "Whether it is on the way back." })),
    startedAt: Type.Optional(time("When the attempt started.")),
    deadlineAt: Type.Optional(time("When the attempt has taken too long.")),
    retryAt: Type.Optional(time("When the next attempt starts.")),
    completedAt: Type.Optional(time("When it ended.")),
    errorClass: Type.Optional(choice(errorClasses, "What kind of failure it was.")),
    error: Type.Optional(Type.String({ description: "What went wrong, for people." })),
  },
  { description: "A change of one aspect of one component." },
);
export type ChangeTask = Static<typeof ChangeTask>;

const plan = Type.Object(
  {
    id: Type.String({ description: "Name of the plan." }),
    generation: int64("Generation of the spec that it carries out."),
    startedAt: time("When it was made."),
    finishedAt: Type.Optional(time("When its last task ended.")),
    outcome: Type.Optional(choice(["Succeeded", "Failed", "Cancelled"], "How it ended.")),
    tasks: Type.Array(ChangeTask, { ...listMap("taskId", "Its tasks, in the order in which they go."), maxItems: 500 }),
  },
  { description: "The change that is carried out, or was last." },
);
export type Plan = Static<typeof plan>;

const spec = Type.Object(
  {
    plugin: named("What knows this middleware.", "Name of the plugin."),
    runtime: named("The middleware itself.", "Name of the program, as the plugin calls it."),
    config: Type.Optional(
      anyMap("Parameters of the middleware, for all components: under the plugin's key (redisConfig), or plain."),
    ),
    components: Type.Optional(
      Type.Array(
        Type.Object({
          name: partName("Name of a component of the plugin.", 40),
          config: Type.Optional(anyMap("Parameters of this component; they win over those of the App.")),
          groups: Type.Optional(
            Type.Array(GroupPart, listMap("name", "Sizes of its groups, where they differ from the plugin's.")),
          ),
        }),
        listMap("name", "What differs from the plugin's defaults, by component."),
      ),
    ),
    stopped: Type.Optional(Type.Boolean({ description: "Stops all Pods and keeps their volumes." })),
    changePolicy: Type.Optional(
      Type.Object(
        {
          order: Type.Optional(
            choice(["p0-last", "p0-first"], "Whether upgrades come after everything else, or first.", { default: "p0-last" }),
          ),
          onFailure: Type.Optional(
            choice(["stop", "skip-dependents"], "What a failed task does to the rest of its plan.", { default: "stop" }),
          ),
          timeout: Type.Optional(duration("How long an attempt of a task may take.", { default: "300s" })),
          maxRetries: Type.Optional(
            int32("Retries of a task after its first attempt.", { minimum: 0, maximum: 100, default: 3 }),
          ),
        },
        { description: "How changes are carried out.", default: {} },
      ),
    ),
    monitoring: Type.Optional(
      Type.Object(
        {
          enabled: Type.Optional(Type.Boolean({ description: "Whether to monitor." })),
          port: Type.Optional(int32("Port of the metrics.", { minimum: 1, maximum: 65_535 })),
          interval: Type.Optional(duration("How often they are read.")),
        },
        { description: "Kept and checked; not carried out yet." },
      ),
    ),
    backup: Type.Optional(
      Type.Object(
        {
          enabled: Type.Optional(Type.Boolean({ description: "Whether to back up." })),
          schedule: Type.Optional(Type.String({ description: "When, in cron syntax.", pattern: "^(\\S+\\s+){4}\\S+$" })),
          retention: Type.Optional(int32("How many are kept.", { minimum: 1 })),
        },
        { description: "Kept and checked; not carried out yet." },
      ),
    ),
  },
  { description: "The middleware that is wanted." },
);

const status = Type.Object(
  {
    phase: Type.Optional(
      choice(["Pending", "Provisioning", "Running", "Updating", "Degraded", "Failed", "Stopped", "Deleting"], "How it is."),
    ),
    message: Type.Optional(Type.String({ description: "What it does or waits for, for people." })),
    observedGeneration: Type.Optional(int64("Generation of the spec that was last looked at.")),
    acceptedGeneration: Type.Optional(int64("Generation of the spec that the plan is about.")),
    pendingGeneration: Type.Optional(int64("Generation that waits for the plan to end.")),
    components: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the component." }),
          ready: Type.Boolean({ description: "Whether all its Pods are." }),
          message: Type.Optional(Type.String({ description: "What it does or waits for." })),
        }),
        listMap("name", "How the components are."),
      ),
    ),
    plan: Type.Optional(plan),
    control: Type.Optional(
      Type.Object(
        {
          cancel: Type.Optional(Type.String({ description: "Hash of the cancel-control that was done." })),
          retry: Type.Optional(Type.String({ description: "Hash of the retry-control that was done." })),
          result: Type.Optional(Type.String({ description: "What came of them, as JSON." })),
        },
        { description: "The last requests of people." },
      ),
    ),
    conditions: Type.Optional(conditions("Accepted, Synced and Ready.")),
  },
  { description: "How it goes." },
);

/** Middleware: what is wanted of it, and the plan that carries out changes. */
export const App = defineResource({
  group,
  version,
  kind: "App",
  plural: "apps",
  shortNames: ["mwapp"],
  description: "Stateful middleware. A change of its spec becomes a plan of tasks that are carried out one after another.",
  spec,
  status,
  columns: [
    { name: "Plugin", type: "string", jsonPath: ".spec.plugin.name" },
    { name: "Version", type: "string", jsonPath: ".spec.runtime.version" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Message", type: "string", jsonPath: ".status.message" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type App = ObjectType<typeof App>;
export type AppStatus = Static<typeof status>;
