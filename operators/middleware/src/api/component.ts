import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, conditions, int32, int64, listMap } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { GroupPart, named, operation, operationRequest } from "./parts.ts";

const spec = Type.Object(
  {
    appRef: Type.Object(
      { name: Type.String({ description: "Name." }), namespace: Type.Optional(Type.String({ description: "Namespace." })) },
      { description: "The App that it is of." },
    ),
    plugin: named("What knows this middleware.", "Name of the plugin."),
    runtime: named("The middleware itself.", "Name of the program."),
    config: Type.Optional(anyMap("Parameters of the middleware.")),
    groups: Type.Array(GroupPart, listMap("name", "Its groups.")),
    stopped: Type.Optional(Type.Boolean({ description: "No Pods run." })),
    operation: Type.Optional(operationRequest),
  },
  { description: "The component that is wanted." },
);
export type ComponentSpec = Static<typeof spec>;

const status = Type.Object(
  {
    phase: Type.Optional(Type.String({ description: "Pending, Updating, Running, Degraded or Stopped." })),
    replicas: Type.Optional(int32("How many Pods there are to be.")),
    readyReplicas: Type.Optional(int32("How many are ready.")),
    observedGeneration: Type.Optional(int64("Generation of the spec that this is about.")),
    operation: Type.Optional(operation),
    conditions: Type.Optional(conditions("Ready.")),
  },
  { description: "How it goes." },
);
export type ComponentStatus = Static<typeof status>;

/** A part of an App: groups of Pods that are changed in an order. Made and changed by the App's controller. */
export const Component = defineResource({
  group,
  version,
  kind: "Component",
  plural: "components",
  shortNames: ["mwc"],
  description: "A part of an App: groups of Pods that are changed in an order. Made and changed by the App's controller.",
  spec,
  status,
  columns: [
    { name: "App", type: "string", jsonPath: ".spec.appRef.name" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Ready", type: "integer", jsonPath: ".status.readyReplicas" },
    { name: "Replicas", type: "integer", jsonPath: ".status.replicas" },
    { name: "Operation", type: "string", jsonPath: ".status.operation.message" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Component = ObjectType<typeof Component>;
