import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { anyMap, conditions, int32, int64, listMap, time } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import {
  disruptions,
  highAvailability,
  named,
  operation,
  operationRequest,
  podProgress,
  podState,
  reference,
  resources,
  rollingUpdate,
  storage,
} from "./parts.ts";
import { podTls } from "./tls.ts";

const spec = Type.Object(
  {
    componentRef: reference("The Component that owns the Group."),
    pluginRef: reference("ConfigMap of the plugin."),
    plugin: named("The plugin for this middleware.", "Name of the plugin."),
    runtime: named("The program to run.", "Name of the program."),
    replicas: int32("Number of Pods.", { minimum: 0, maximum: 100 }),
    config: Type.Optional(anyMap("Parameters of the program.")),
    tls: Type.Optional(podTls),
    resources: Type.Optional(resources),
    storage: Type.Optional(storage),
    affinity: Type.Optional(anyMap("Affinity of the Pods.")),
    highAvailability: Type.Optional(highAvailability),
    rollingUpdate: Type.Optional(rollingUpdate),
    values: Type.Optional(anyMap("Values for the plugin's templates.")),
    stopped: Type.Optional(Type.Boolean({ description: "Runs no Pods." })),
    operation: Type.Optional(operationRequest),
  },
  { description: "Desired Pods." },
);
/** Desired Pods of a Group. */
export type GroupSpec = Static<typeof spec>;

const status = Type.Object(
  {
    ...podProgress,
    currentVersion: Type.Optional(Type.String({ description: "Version that all programs report." })),
    currentRevision: Type.Optional(
      Type.String({ description: "Revision of the last complete rollout, of Pods below the partition." }),
    ),
    updateRevision: Type.Optional(Type.String({ description: "Revision of the spec, of Pods from the partition on." })),
    updatedReplicas: Type.Optional(int32("Number of Pods of the revision of the spec.")),
    hasAgents: Type.Optional(
      Type.Boolean({ description: "Whether an agent runs in every Pod. It does not change while the Group exists." }),
    ),
    completed: Type.Optional(
      anyMap(
        "The plugin, version, parameters and template values of the last complete rollout, with which Pods below the partition start.",
      ),
    ),
    disruptions: Type.Optional(
      disruptions("Disruptions by operations and changes of the primary since the Group was created."),
    ),
    primary: Type.Optional(
      Type.Object(
        {
          pod: Type.String({ description: "Name of the Pod." }),
          epoch: int64("Incremented for every new primary."),
        },
        { description: "The Pod that accepts writes." },
      ),
    ),
    members: Type.Optional(
      Type.Object(
        {
          version: int64("Incremented for every change."),
          pods: Type.Array(Type.String(), { description: "Names of the Pods.", maxItems: 100 }),
        },
        {
          description:
            "The Pods whose agents decide by majority which of them is the primary. Empty with fewer than three Pods: the controller decides.",
        },
      ),
    ),
    switchover: Type.Optional(
      Type.Object(
        {
          token: Type.String({ description: "Identifies the switchover." }),
          from: Type.String({ description: "The current primary." }),
          to: Type.String({ description: "The next primary." }),
          epoch: int64("Epoch of the next primary."),
        },
        { description: "A switchover in progress." },
      ),
    ),
    switchoverControl: Type.Optional(
      Type.Object(
        {
          id: Type.String({ description: "Id of the request." }),
          result: Type.String({ description: "running, the name of the new primary, or refused: and why." }),
        },
        { description: "The last processed switchover-control annotation." },
      ),
    ),
    restartControl: Type.Optional(
      Type.Object(
        {
          id: Type.String({ description: "Id of the request." }),
          result: Type.String({ description: "running, done, or refused: and why." }),
          pods: Type.Optional(
            Type.Array(
              Type.Object({
                name: Type.String({ description: "Name of the Pod." }),
                uid: Type.String({ description: "UID of the Pod to replace." }),
              }),
              { ...listMap("name", "Pods to restart."), maxItems: 100 },
            ),
          ),
          rebuild: Type.Optional(Type.Boolean({ description: "The Pod discards its data and copies that of the primary." })),
        },
        { description: "The last processed restart-control annotation." },
      ),
    ),
    failover: Type.Optional(
      Type.Object(
        {
          from: Type.String({ description: "The primary that has failed." }),
          to: Type.String({ description: "The replica that becomes the primary." }),
          epoch: int64("Epoch of the next primary."),
          refusal: Type.Optional(Type.String({ description: "Why the replica does not take over yet." })),
        },
        { description: "A failover in progress." },
      ),
    ),
    fencing: Type.Optional(
      Type.Object(
        {
          pod: Type.String({ description: "Name of the Pod." }),
          uid: Type.String({ description: "UID of the Pod to terminate." }),
        },
        { description: "A Pod that does not respond and must be terminated before another one becomes the primary." },
      ),
    ),
    restarting: Type.Optional(
      Type.Object(
        {
          pod: Type.String({ description: "Name of the Pod." }),
          uid: Type.String({ description: "UID of the Pod to delete." }),
          remove: Type.Optional(Type.Boolean({ description: "The Pod is not recreated." })),
          others: Type.Optional(
            Type.Array(
              Type.Object({
                name: Type.String({ description: "Name of the Pod." }),
                uid: Type.String({ description: "UID of the Pod to delete." }),
              }),
              { ...listMap("name", "Pods that are restarted at the same time."), maxItems: 100 },
            ),
          ),
        },
        { description: "A Pod that is being restarted." },
      ),
    ),
    replacements: Type.Optional(
      Type.Array(
        Type.Object({
          pod: Type.String({ description: "Name of the Pod." }),
          failures: int32("How often it ended, with less than 10 minutes between."),
          replacedAt: time("When it was last replaced."),
        }),
        { ...listMap("pod", "Pods that ended and were replaced, with exponential backoff from 10 s to 5 min."), maxItems: 100 },
      ),
    ),
    restartNeeded: Type.Optional(Type.String({ description: "Hash of the parameters that require a restart." })),
    pods: Type.Optional(Type.Array(podState, listMap("name", "Pods of the Group."))),
    operation: Type.Optional(operation),
    conditions: Type.Optional(conditions("Ready.")),
  },
  { description: "Observed state of the Group." },
);
/** Observed state of a Group. */
export type GroupStatus = Static<typeof status>;

/** Identical Pods of a Component, each with a stable name and its own volume. */
export const Group = defineResource({
  group,
  version,
  kind: "Group",
  plural: "groups",
  shortNames: ["mwg"],
  description:
    "Identical Pods of a Component, each with a stable name and its own volume. Managed by the Component controller.",
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
