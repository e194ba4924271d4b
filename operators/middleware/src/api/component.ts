import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, conditions, listMap } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { GroupPart, named, operation, operationRequest, podProgress, reference } from "./parts.ts";
import { podTls } from "./tls.ts";

const spec = Type.Object(
  {
    appRef: reference("The App that owns the Component."),
    plugin: named("The plugin for this middleware.", "Name of the plugin."),
    runtime: named("The program to run.", "Name of the program."),
    config: Type.Optional(anyMap("Parameters of the program.")),
    tls: Type.Optional(podTls),
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
    ...podProgress,
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
