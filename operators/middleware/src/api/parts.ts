import { type Static, Type } from "typebox";
import { anyMap, choice, int32, int64, partName, quantity, time } from "@keelson/api-machinery/fields";

/** Schema of a plugin or runtime: a name and a version. */
export const named = (description: string, name: string) =>
  Type.Object(
    {
      name: Type.String({ description: name, minLength: 1, maxLength: 100 }),
      version: Type.String({ description: "Version.", minLength: 1, maxLength: 40 }),
    },
    { description },
  );

/** Schema of a reference to an object by name. */
export const reference = (description: string) =>
  Type.Object(
    { name: Type.String({ description: "Name." }), namespace: Type.Optional(Type.String({ description: "Namespace." })) },
    { description },
  );

/** Status fields of everything that manages Pods. */
export const podProgress = {
  phase: Type.Optional(Type.String({ description: "Phase: Pending, Updating, Running, Degraded or Stopped." })),
  replicas: Type.Optional(int32("Desired number of Pods.")),
  readyReplicas: Type.Optional(int32("Number of ready Pods.")),
  message: Type.Optional(Type.String({ description: "What the Pods are waiting for while no operation runs." })),
  observedGeneration: Type.Optional(int64("Most recently observed generation of the spec.")),
};

/** Compute resources of a Pod (core/v1 ResourceRequirements). */
export const resources = Type.Object(
  {
    requests: Type.Optional(
      Type.Unsafe<Record<string, string | number>>({
        type: "object",
        additionalProperties: quantity("A quantity."),
        description: "Requested resources.",
      }),
    ),
    limits: Type.Optional(
      Type.Unsafe<Record<string, string | number>>({
        type: "object",
        additionalProperties: quantity("A quantity."),
        description: "Resource limits.",
      }),
    ),
  },
  { description: "Compute resources of each Pod." },
);

/** A volume for each Pod. */
export const storage = Type.Object(
  {
    size: quantity("Size of the volume. It can grow but not shrink."),
    storageClass: Type.Optional(Type.String({ description: "StorageClass. Default: the default class of the cluster." })),
  },
  { description: "A volume for each Pod." },
);

/** Which replica becomes the primary. */
export const highAvailability = Type.Object(
  {
    quorum: Type.Optional(
      Type.Boolean({
        description:
          "The agents of three or more Pods decide by majority about the primary, even while the controller is unavailable. A primary that cannot reach a majority rejects writes. Default: false, the controller decides.",
      }),
    ),
    maxReplicationLag: Type.Optional(
      quantity(
        "Bytes that a replica may lack of what the failed primary last reported when the agents elect it. Default: 0, so that no reported data is lost.",
      ),
    ),
    preferredPrimaries: Type.Optional(
      Type.Array(int32("Ordinal of a Pod.", { minimum: 0, maximum: 99 }), {
        description: "Ordinals of Pods in order of preference, among those with the same data.",
        maxItems: 100,
      }),
    ),
  },
  { description: "Which replica becomes the primary." },
);

/** How the Pods of a group are replaced. */
export const rollingUpdate = Type.Object(
  {
    partition: Type.Optional(
      int32(
        "Changes only Pods whose ordinal is at least this number. The others keep their version, parameters and template, even when they are replaced. Default: 0, all Pods.",
        { minimum: 0, maximum: 100 },
      ),
    ),
    maxUnavailable: Type.Optional(
      int32(
        "Pods that are replaced at the same time, after the first one has become ready. Only for groups without agents; others replace one at a time. Default: 1.",
        { minimum: 1, maximum: 100 },
      ),
    ),
  },
  { description: "How the Pods are replaced." },
);

/** A group of identical Pods of a component. */
export const GroupPart = Type.Object(
  {
    name: partName("Name of the group within the component.", 40),
    replicas: Type.Optional(int32("Number of Pods. Default: set by the plugin.", { minimum: 0, maximum: 100 })),
    resources: Type.Optional(resources),
    storage: Type.Optional(storage),
    affinity: Type.Optional(anyMap("Affinity of the Pods (core/v1 Affinity).")),
    highAvailability: Type.Optional(highAvailability),
    rollingUpdate: Type.Optional(rollingUpdate),
    values: Type.Optional(anyMap("Values for the plugin's templates.")),
  },
  { description: "A group of identical Pods of a component." },
);
export type GroupPart = Static<typeof GroupPart>;

/** Values of {@link scenario}. */
export const scenarios = ["provision", "start", "stop", "update", "upgrade"] as const;

/** Schema of the scenario of an operation. */
export const scenario = choice(scenarios, "Kind of operation.");
/** Kind of operation: one of {@link scenarios}. */
export type Scenario = (typeof scenarios)[number];

/** Operation that a parent requests from its child. A new token is a new request. */
export const operationRequest = Type.Object(
  {
    token: Type.String({ description: "Identifies the request: plan, task and attempt.", maxLength: 200 }),
    scenario,
  },
  { description: "The operation that this spec belongs to." },
);

/** Classes of failures. */
export const errorClasses = [
  "Config",
  "Conflict",
  "Network",
  "Forbidden",
  "Insufficient",
  "Timeout",
  "AgentPrecondition",
  "Unknown",
] as const;
/** Class of a failure: one of {@link errorClasses}. */
export type ErrorClass = (typeof errorClasses)[number];

/** Schema of the disruptions of a change. */
export const disruptions = (description: string) =>
  Type.Object(
    {
      restarts: int32("Pods that were restarted."),
      switchovers: int32("Planned changes of the primary."),
      failovers: Type.Optional(int32("Unplanned changes of the primary.")),
    },
    { description },
  );
/** Disruptions of a change. */
export type Disruptions = Static<ReturnType<typeof disruptions>>;

/** Progress of the operation that the parent requested. */
export const operation = Type.Object(
  {
    token: Type.String({ description: "Token of the requested operation." }),
    scenario,
    phase: choice(["Running", "Succeeded", "Failed", "Cancelled"], "Phase of the operation."),
    order: Type.Optional(Type.Array(Type.String(), { description: "Order of execution, fixed at the start." })),
    steps: Type.Optional(
      Type.Array(
        Type.Object({
          target: Type.String({ description: "Name of the Group or Pod." }),
          action: Type.String({ description: "Action on the target." }),
          at: time("Time of the action."),
        }),
        { description: "The last 50 actions, newest last.", maxItems: 50 },
      ),
    ),
    disruptions: Type.Optional(disruptions("Disruptions so far, earlier attempts of the task included.")),
    checked: Type.Optional(
      Type.Boolean({ description: "Whether an agent has checked that the data can be upgraded, before the Pods are stopped." }),
    ),
    pointOfNoReturn: Type.Optional(Type.Boolean({ description: "Whether the operation can no longer be reverted." })),
    errorClass: Type.Optional(choice(errorClasses, "Class of the failure.")),
    message: Type.Optional(Type.String({ description: "Human-readable progress." })),
    startedAt: time("When the operation started."),
  },
  { description: "Progress of the last requested operation." },
);
/** Progress of the operation that the parent requested. */
export type Operation = Static<typeof operation>;

/** Observed state of a Pod of a Group. */
export const podState = Type.Object({
  name: Type.String({ description: "Name of the Pod." }),
  uid: Type.Optional(Type.String({ description: "UID of the Pod." })),
  ip: Type.Optional(Type.String({ description: "IP address of the Pod." })),
  role: Type.Optional(
    Type.String({
      description: "Role: primary, replica, unassigned, recovering or unknown. Missing for Pods without an agent.",
    }),
  ),
  version: Type.Optional(
    Type.String({ description: "Version that the program reports, or with which a Pod without an agent was created." }),
  ),
  configHash: Type.Optional(Type.String({ description: "Hash of the active parameters." })),
  ready: Type.Optional(Type.Boolean({ description: "Whether the program serves and, as a replica, is in sync." })),
});

/** Observed state of a Pod of a Group. */
export type PodState = Static<typeof podState>;
