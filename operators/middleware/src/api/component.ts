import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, conditions, int32, int64, listMap } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { GroupPart, named, operation, operationRequest } from "./parts.ts";

const spec = Type.Object(
  {
    appRef: Type.Object(
      { name: Type.String({ description: "Name." }), namespace: Type.Optional(Type.String({ description: "Namespace." })) },
      { description: "The App that owns the Component." },
    ),
    plugin: named("The plugin for this middleware.", "Name of the plugin."),
    runtime: named("The program to run.", "Name of the program."),
    config: Type.Optional(anyMap("Parameters of the program.")),
    groups: Type.Array(GroupPart, listMap("name", "Groups of the Component.")),
    stopped: Type.Optional(Type.Boolean({ description: "Runs no Pods." })),
    operation: Type.Optional(operationRequest),
  },
  { description: "Desired state of the Component." },
);
/** Desired state of a Component. */
export type ComponentSpec = Static<typeof spec>;

const status = Type.Object(
  {
    phase: Type.Optional(Type.String({ description: "Phase: Pending, Updating, Running, Degraded or Stopped." })),
    replicas: Type.Optional(int32("Desired number of Pods.")),
    readyReplicas: Type.Optional(int32("Number of ready Pods.")),
    message: Type.Optional(Type.String({ description: "What the Pods are waiting for while no operation runs." })),
    observedGeneration: Type.Optional(int64("Most recently observed generation of the spec.")),
    version: Type.Optional(Type.String({ description: "Version that the programs report, while they agree." })),
    operation: Type.Optional(operation),
    conditions: Type.Optional(conditions("Ready.")),
  },
  { description: "Observed state of the Component." },
);
/** Observed state of a Component. */
export type ComponentStatus = Static<typeof status>;

/** A part of an App: groups of Pods that are changed in order. Managed by the App controller. */
export const Component = defineResource({
  group,
  version,
  kind: "Component",
  plural: "components",
  shortNames: ["mwc"],
  description: "A part of an App: groups of Pods that are changed in order. Managed by the App controller.",
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
