import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, conditions, int32, int64, listMap } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { named, operation, operationRequest, podState, resources, storage } from "./parts.ts";

const reference = (description: string) =>
  Type.Object(
    { name: Type.String({ description: "Name." }), namespace: Type.Optional(Type.String({ description: "Namespace." })) },
    { description },
  );

const spec = Type.Object(
  {
    componentRef: reference("The Component that it is of."),
    pluginRef: reference("The ConfigMap of the plugin."),
    plugin: named("What knows this middleware.", "Name of the plugin."),
    runtime: named("The middleware itself.", "Name of the program."),
    replicas: int32("How many Pods.", { minimum: 0, maximum: 100 }),
    config: Type.Optional(anyMap("Parameters of the middleware.")),
    resources: Type.Optional(resources),
    storage: Type.Optional(storage),
    affinity: Type.Optional(anyMap("Where the Pods may run.")),
    values: Type.Optional(anyMap("Values for the plugin's templates.")),
    stopped: Type.Optional(Type.Boolean({ description: "No Pods run." })),
    operation: Type.Optional(operationRequest),
  },
  { description: "The Pods that are wanted." },
);
export type GroupSpec = Static<typeof spec>;

const status = Type.Object(
  {
    phase: Type.Optional(Type.String({ description: "Pending, Updating, Running, Degraded or Stopped." })),
    replicas: Type.Optional(int32("How many Pods there are to be.")),
    readyReplicas: Type.Optional(int32("How many are ready.")),
    observedGeneration: Type.Optional(int64("Generation of the spec that this is about.")),
    currentVersion: Type.Optional(Type.String({ description: "Version that all Pods run, while they agree." })),
    primary: Type.Optional(
      Type.Object(
        {
          pod: Type.String({ description: "Name of the Pod." }),
          epoch: int64("Grows with every primary."),
        },
        { description: "Which Pod takes writes." },
      ),
    ),
    switchover: Type.Optional(
      Type.Object(
        {
          token: Type.String({ description: "Identifies it." }),
          from: Type.String({ description: "The Pod that gives the role." }),
          to: Type.String({ description: "The Pod that takes it." }),
          epoch: int64("Of the new primary."),
        },
        { description: "A change of the primary that was begun." },
      ),
    ),
    restarting: Type.Optional(
      Type.Object(
        {
          pod: Type.String({ description: "Name of the Pod." }),
          uid: Type.String({ description: "uid of the Pod that has to go." }),
          remove: Type.Optional(Type.Boolean({ description: "It does not come back." })),
        },
        { description: "A Pod that is being replaced." },
      ),
    ),
    restartNeeded: Type.Optional(
      Type.String({ description: "Hash of the parameters that a program said it needs a restart for." }),
    ),
    pods: Type.Optional(Type.Array(podState, listMap("name", "Its Pods."))),
    operation: Type.Optional(operation),
    conditions: Type.Optional(conditions("Ready.")),
  },
  { description: "How it goes." },
);
export type GroupStatus = Static<typeof status>;

/** Pods of one size within a Component, each with a name and a volume of its own. */
export const Group = defineResource({
  group,
  version,
  kind: "Group",
  plural: "groups",
  shortNames: ["mwg"],
  description:
    "Pods of one size within a Component, each with a name and a volume of its own. Made and changed by the Component's controller.",
  spec,
  status,
  columns: [
    { name: "Component", type: "string", jsonPath: ".spec.componentRef.name" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Primary", type: "string", jsonPath: ".status.primary.pod" },
    { name: "Ready", type: "integer", jsonPath: ".status.readyReplicas" },
    { name: "Replicas", type: "integer", jsonPath: ".status.replicas" },
    { name: "Version", type: "string", jsonPath: ".status.currentVersion" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Group = ObjectType<typeof Group>;
