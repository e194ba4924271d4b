import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { DeviceInfo } from "./device-info.ts";
import { choice, conditions, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";

export type { DeviceInfo } from "./device-info.ts";

const spec = Type.Object(
  {
    robotId: Type.String({
      description: "The name under which the robot's agent registers; the object has the same name.",
      pattern: "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
    }),
    description: Type.Optional(Type.String({ description: "What the robot is." })),
    labels: Type.Optional(stringMap("What a Job's robotSelector is compared with.")),
    approved: Type.Optional(
      Type.Boolean({
        description:
          "true: the robot may work, whatever join token it knows. false: it may not. Left out: it may when it knows the join token.",
      }),
    ),
  },
  { description: "Which robot it is." },
);

const status = Type.Object(
  {
    phase: Type.Optional(
      choice(
        ["Pending", "Online", "Offline", "Unknown"],
        "Pending: not yet registered or not approved; Online: gets work; Offline: was here, is not heard of now.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "Why the robot is in this phase, for people." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status is about.")),
    lastHeartbeatTime: Type.Optional(time("When the robot was last heard of, to within 30 seconds.")),
    connected: Type.Optional(
      Type.Boolean({ description: "Whether the robot's agent is connected to the broker, as far as the broker says." }),
    ),
    bootId: Type.Optional(Type.String({ description: "Changes when the robot's computer restarts." })),
    verifiedTokenSha256: Type.Optional(
      Type.String({ description: "The registration (hash of its join token) that was approved." }),
    ),
    deviceInfo: Type.Optional(DeviceInfo),
    conditions: Type.Optional(conditions("Approved: the robot may work. Online: its agent is heard of.")),
  },
  { description: "How the robot is." },
);

/** A robot. */
export const Robot = defineResource({
  group,
  version,
  kind: "Robot",
  plural: "robots",
  shortNames: ["rb"],
  description: "A robot: a machine whose agent runs tasks.",
  spec,
  status,
  columns: [
    { name: "RobotID", type: "string", jsonPath: ".spec.robotId" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Hostname", type: "string", jsonPath: ".status.deviceInfo.hostname" },
    { name: "OS", type: "string", jsonPath: ".status.deviceInfo.platform.os" },
    { name: "CPUs", type: "integer", jsonPath: ".status.deviceInfo.cpu.logicalCores" },
    { name: "LastHeartbeat", type: "date", jsonPath: ".status.lastHeartbeatTime" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Robot = ObjectType<typeof Robot>;
