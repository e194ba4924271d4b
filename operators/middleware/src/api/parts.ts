import { type Static, Type } from "typebox";
import { anyMap, choice, int32, int64, listMap, partName, quantity, stringMap, time } from "@keelson/api-machinery/fields";

/** A name and a version: of a plugin, of a runtime. */
export const named = (description: string, name: string) =>
  Type.Object(
    {
      name: Type.String({ description: name, minLength: 1, maxLength: 100 }),
      version: Type.String({ description: "Its version.", minLength: 1, maxLength: 40 }),
    },
    { description },
  );

/** Demands on a machine's resources (core/v1 ResourceRequirements). */
export const resources = Type.Object(
  {
    requests: Type.Optional(
      Type.Unsafe<Record<string, string | number>>({
        type: "object",
        additionalProperties: quantity("An amount."),
        description: "What it needs at least.",
      }),
    ),
    limits: Type.Optional(
      Type.Unsafe<Record<string, string | number>>({
        type: "object",
        additionalProperties: quantity("An amount."),
        description: "What it gets at most.",
      }),
    ),
  },
  { description: "What each Pod needs of its machine." },
);

/** A volume for each Pod. */
export const storage = Type.Object(
  {
    size: quantity("How large. It can grow, never shrink."),
    storageClass: Type.Optional(Type.String({ description: "StorageClass; default: the cluster's." })),
  },
  { description: "A volume for each Pod." },
);

/** Pods of one size within a component. */
export const GroupPart = Type.Object(
  {
    name: partName("Name within the component.", 40),
    replicas: Type.Optional(int32("How many Pods. Default: the plugin's.", { minimum: 0, maximum: 100 })),
    resources: Type.Optional(resources),
    storage: Type.Optional(storage),
    affinity: Type.Optional(anyMap("Where the Pods may run (core/v1 Affinity).")),
    values: Type.Optional(anyMap("Values for the plugin's templates.")),
  },
  { description: "Pods of one size within a component." },
);
export type GroupPart = Static<typeof GroupPart>;

/** Values of {@link scenario}. */
export const scenarios = ["provision", "start", "stop", "update", "upgrade"] as const;

/** What is being done. */
export const scenario = choice(scenarios, "What is being done.");
export type Scenario = (typeof scenarios)[number];

/** What a parent asks of its child: a new token is a new request. */
export const operationRequest = Type.Object(
  {
    token: Type.String({ description: "Identifies the request: plan, task and attempt.", maxLength: 200 }),
    scenario,
  },
  { description: "Which change this spec is part of." },
);

/** Why something failed. */
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
export type ErrorClass = (typeof errorClasses)[number];

/** How a child answers the request. */
export const operation = Type.Object(
  {
    token: Type.String({ description: "Token of the request that this answers." }),
    scenario,
    phase: choice(["Running", "Succeeded", "Failed", "Cancelled"], "How far it is."),
    order: Type.Optional(Type.Array(Type.String(), { description: "In which order it goes; fixed at its beginning." })),
    steps: Type.Optional(
      Type.Array(
        Type.Object({
          target: Type.String({ description: "Name of the Group or Pod." }),
          action: Type.String({ description: "What was done." }),
          at: time("When it was decided."),
        }),
        { description: "What was done so far, the newest last; at most 50.", maxItems: 50 },
      ),
    ),
    pointOfNoReturn: Type.Optional(Type.Boolean({ description: "Whether it is too late to go back." })),
    errorClass: Type.Optional(choice(errorClasses, "What kind of failure it was.")),
    message: Type.Optional(Type.String({ description: "What it does or waits for, for people." })),
    startedAt: time("When it was taken up."),
  },
  { description: "How the last request goes." },
);
export type Operation = Static<typeof operation>;

/** One Pod of a Group, as it was last seen. */
export const podState = Type.Object({
  name: Type.String({ description: "Name of the Pod." }),
  uid: Type.Optional(Type.String({ description: "uid of the Pod." })),
  ip: Type.Optional(Type.String({ description: "Its address." })),
  role: Type.Optional(Type.String({ description: "primary, replica, unassigned, or unknown." })),
  version: Type.Optional(Type.String({ description: "Version of the program that runs." })),
  configHash: Type.Optional(Type.String({ description: "Hash of the parameters in force." })),
  ready: Type.Optional(Type.Boolean({ description: "Whether it serves and, as a replica, is in sync." })),
});
export type PodState = Static<typeof podState>;

export { int32, int64, listMap, stringMap, time };
