import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { DeviceInfo } from "./device-info.ts";
import { choice, conditions, int32, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";

export type { DeviceInfo } from "./device-info.ts";

const spec = Type.Object(
  {
    robotId: Type.String({
      description: "ID under which the robot's agent registers. metadata.name must be the same.",
      pattern: "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
    }),
    description: Type.Optional(Type.String({ description: "Free-form description of the robot." })),
    labels: Type.Optional(stringMap("Labels that a Job's robotSelector matches.")),
    unschedulable: Type.Optional(
      Type.Boolean({ description: "Whether the robot gets no further tasks (cordoned). Its current tasks continue." }),
    ),
    drain: Type.Optional(
      Type.Object(
        {
          deadline: Type.Optional(
            time("Time until which batch tasks may finish. Other tasks move immediately. Unset: all tasks move immediately."),
          ),
        },
        { description: "Moves the robot's tasks to other robots. Tasks that cannot move stay. Set with unschedulable." },
      ),
    ),
    approved: Type.Optional(
      Type.Boolean({
        description:
          "true approves the robot and false rejects it, whatever join token it has. Unset: the robot is approved if it has the join token.",
      }),
    ),
    revokedKeys: Type.Optional(
      Type.Array(Type.String({ pattern: "^[0-9a-f]{64}$" }), {
        description: "SHA-256 digests of the robot's revoked keys and credentials.",
        "x-kubernetes-list-type": "set",
        maxItems: 64,
      }),
    ),
  },
  { description: "Identity and labels of the robot." },
);

const status = Type.Object(
  {
    phase: Type.Optional(
      choice(
        ["Pending", "Online", "Offline", "Unknown"],
        "Pending: not registered or not approved; Online: receives work; Offline: has stopped reporting. Unknown is never written.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "Why the robot is in this phase." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status reflects.")),
    lastHeartbeatTime: Type.Optional(
      time("Time of the last heartbeat that was recorded. It is written rarely while the robot is connected."),
    ),
    heartbeatAccuracySeconds: Type.Optional(
      int32(
        "Maximum age of lastHeartbeatTime while the robot is connected. A robot that stops reporting is detected after 90 seconds.",
      ),
    ),
    connected: Type.Optional(Type.Boolean({ description: "Whether the robot's agent is connected, according to the broker." })),
    bootId: Type.Optional(Type.String({ description: "Boot ID of the robot's computer. It changes with every reboot." })),
    identity: Type.Optional(
      Type.Object(
        {
          keySha256: Type.String({ description: "SHA-256 of the robot's public key." }),
          publicKey: Type.String({
            description: "Public key of the robot, DER in base64. Its private key never leaves the robot.",
          }),
          certificate: Type.String({ description: "Certificate of the key, in PEM." }),
          expires: time("Time at which the certificate expires. The robot's agent renews it before, or when it returns."),
          earlier: Type.Optional(
            Type.Array(
              Type.Object({
                serial: Type.String({ description: "Serial number, in hexadecimal." }),
                keySha256: Type.String({ description: "SHA-256 of the public key." }),
                expires: time("Time at which it expires."),
              }),
              { description: "Earlier certificates that have not expired.", "x-kubernetes-list-type": "atomic" },
            ),
          ),
          token: Type.Optional(Type.String({ description: "ID of the join token that the robot used." })),
          requiresApproval: Type.Optional(
            Type.Boolean({ description: "Whether the join token requires that the robot is approved by hand." }),
          ),
        },
        { description: "Key that the robot is bound to. Only an agent with its private key can connect as this robot." },
      ),
    ),
    verifiedTokenSha256: Type.Optional(Type.String({ description: "SHA-256 of the join token of the approved registration." })),
    drivers: Type.Optional(Type.Array(Type.String(), { description: "Drivers of the robot's agent. Unset: unknown." })),
    agentFeatures: Type.Optional(
      Type.Array(Type.String(), {
        description: "Optional features of the robot's agent. leases: it runs a task only while it holds the task's lease.",
      }),
    ),
    deviceInfo: Type.Optional(DeviceInfo),
    conditions: Type.Optional(
      conditions("Approved: the robot may run tasks. Online: its agent is reporting. Held: two agents use the robot's key."),
    ),
  },
  { description: "Observed state of the robot." },
);

/** A robot: a machine whose agent runs tasks. */
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
