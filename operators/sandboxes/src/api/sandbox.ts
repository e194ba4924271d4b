import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { anyObject, choice, conditions, int32, int64, listMap, time } from "@keelson/api-machinery/fields";
import { cidrPattern, hostPattern, maxNetworkRules, maxRulePorts, networkModes } from "../network/network-policy.ts";
import { maxVolumes, mountPathPattern, reservedPathPattern } from "../volumes/volume-mount.ts";
import { group, version } from "./names.ts";
import { resourceLimits } from "./resource-limits.ts";

/** Phases of a Sandbox. See `sandbox-decision.ts` for the transitions. */
export const phases = [
  "Pending",
  "Creating",
  "Bound",
  "Running",
  "Paused",
  "Succeeded",
  "Failed",
  "Lost",
  "Expired",
  "Terminating",
] as const;

/** One of {@link phases}. */
export type Phase = (typeof phases)[number];

const spec = Type.Object(
  {
    image: Type.String({ description: "Container image; host: the machine's own programs.", minLength: 1, maxLength: 512 }),
    poolRef: Type.String({ description: "Name of the SandboxPool whose agents may run it.", minLength: 1, maxLength: 253 }),
    command: Type.Optional(
      Type.Array(Type.String(), { description: "Command to run instead of the image's entrypoint.", maxItems: 1024 }),
    ),
    args: Type.Optional(Type.Array(Type.String(), { description: "Arguments of the command.", maxItems: 1024 })),
    envs: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the variable.", minLength: 1, pattern: "^[^=]+$" }),
          value: Type.Optional(Type.String({ description: "Value of the variable." })),
          valueFrom: Type.Optional(
            anyObject<{ secretKeyRef?: { name?: string; key: string; optional?: boolean } }>(
              "Source of the value: a secretKeyRef or configMapKeyRef in the namespace.",
            ),
          ),
        }),
        { description: "Environment variables.", maxItems: 1024 },
      ),
    ),
    workingDir: Type.Optional(Type.String({ description: "Working directory. Default: a private directory.", pattern: "^/" })),
    exposedPorts: Type.Optional(
      Type.Array(int32("A port.", { minimum: 1, maximum: 65535 }), {
        description: "Ports that it listens on. Sandboxes of one agent cannot share a port.",
        "x-kubernetes-list-type": "set",
        maxItems: 64,
      }),
    ),
    network: Type.Optional(
      choice(
        networkModes,
        "Network access. none: a private loopback and the exposed ports. internet: public addresses. allowList: networkAllow.",
        {
          default: "none",
        },
      ),
    ),
    networkAllow: Type.Optional(
      Type.Array(
        Type.Object(
          {
            host: Type.Optional(
              Type.String({
                description: "DNS name, or *. and a domain for all names below it.",
                pattern: hostPattern,
                maxLength: 253,
              }),
            ),
            cidr: Type.Optional(
              Type.String({ description: "IPv4 addresses, such as 10.0.0.0/8.", pattern: cidrPattern, maxLength: 18 }),
            ),
            ports: Type.Optional(
              Type.Array(int32("A port.", { minimum: 1, maximum: 65535 }), {
                description: "TCP and UDP ports. Default: all ports and protocols.",
                "x-kubernetes-list-type": "set",
                maxItems: maxRulePorts,
              }),
            ),
          },
          {
            "x-kubernetes-validations": [
              { rule: "has(self.host) != has(self.cidr)", message: "must have either host or cidr" },
            ],
          },
        ),
        { description: "Destinations that network allowList permits.", maxItems: maxNetworkRules },
      ),
    ),
    volumes: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({
            description: "Name of a SandboxVolume of the namespace and pool.",
            minLength: 1,
            maxLength: 253,
          }),
          mountPath: Type.String({
            description:
              "Where the sandbox sees it, such as /data; not a directory of the system, nor the work directory or below it.",
            pattern: mountPathPattern,
            maxLength: 255,
            "x-kubernetes-validations": [
              {
                rule: `!self.matches('${reservedPathPattern}')`,
                message: "must not be a directory of the system or of the sandbox; use a path such as /data",
              },
            ],
          }),
          readOnly: Type.Optional(
            Type.Boolean({
              description:
                "Whether it cannot be written. Sandboxes that do not write to a volume can share it; one that does has it alone. Default: false.",
            }),
          ),
        }),
        { ...listMap("name", "Volumes, which outlive the sandbox. It runs on the agent that has them."), maxItems: maxVolumes },
      ),
    ),
    resources: resourceLimits("Resource limits. Default: those of the pool."),
    expireTime: Type.Optional(time("Time at which it is stopped; the object is kept.")),
    expireTimeSeconds: Type.Optional(int64("Expiry in Unix seconds; 0: never. expireTime takes precedence.", { minimum: 0 })),
    state: Type.Optional(
      choice(
        ["Running", "Paused"],
        "Paused: its processes are frozen, and its expiry and other times do not pass. Default: Running.",
      ),
    ),
    idleTimeoutSeconds: Type.Optional(
      int32("Stops it after this time without an exec or a connection to an exposed port.", { minimum: 1 }),
    ),
    maxAgeSeconds: Type.Optional(int32("Stops it this long after its first start.", { minimum: 1 })),
    ttlSecondsAfterFinished: Type.Optional(
      int32("Deletes the object this long after it has finished, failed or expired. Default: never.", { minimum: 0 }),
    ),
    consistencyMode: Type.Optional(
      choice(["fast", "strong", "FAST", "STRONG"], "How the fast path creates it; no effect on an existing object."),
    ),
    whenFull: Type.Optional(
      choice(
        ["Wait", "Reject", "Burst"],
        "What to do if no agent has a free slot. Wait (default): wait for one. Reject: fail. Burst: wait, and let the pool grow by up to burstMax agents.",
      ),
    ),
    failurePolicy: Type.Optional(
      choice(["Manual", "AutoRecreate", "manual", "autoRecreate"], "What to do when its agent is lost.", {
        default: "Manual",
      }),
    ),
    recoveryTimeoutSeconds: Type.Optional(
      int32("How long to wait for a lost agent before the sandbox is recreated elsewhere.", { minimum: 1, default: 60 }),
    ),
    resetRevision: Type.Optional(time("Restarts the sandbox when set to a later time than before.")),
  },
  {
    description: "The desired sandbox.",
    "x-kubernetes-validations": [
      {
        rule: "!has(self.networkAllow) || size(self.networkAllow) == 0 || self.network == 'allowList'",
        message: "networkAllow requires network: allowList",
      },
      {
        rule: "self.network != 'allowList' || (has(self.networkAllow) && size(self.networkAllow) > 0)",
        message: "network allowList requires at least one rule in networkAllow",
      },
    ],
  },
);

const status = Type.Object(
  {
    phase: Type.Optional(choice(phases, "Phase of its life cycle.")),
    message: Type.Optional(Type.String({ description: "Human-readable details." })),
    observedGeneration: Type.Optional(int64("The generation of spec that this status reflects.")),
    assignedPod: Type.Optional(Type.String({ description: "The agent that runs it." })),
    nodeName: Type.Optional(Type.String({ description: "The agent's node." })),
    sandboxID: Type.Optional(Type.String({ description: "Its id on the agent." })),
    endpoints: Type.Optional(Type.Array(Type.String(), { description: "address:port of its exposed ports." })),
    acceptedResetRevision: Type.Optional(time("The last resetRevision that was executed.")),
    instance: Type.Optional(int64("Number of restarts; each instance has its own sandboxID.")),
    exitCode: Type.Optional(int32("Exit code of its program.")),
    firstStartTime: Type.Optional(time("Time at which its first instance was started, or could not be started.")),
    expireTime: Type.Optional(
      time("When it expires, if it is not paused or renewed before; idleTimeoutSeconds is not considered."),
    ),
    expiredTime: Type.Optional(time("Since when it is being stopped because it expired. It can no longer be renewed.")),
    pausedTime: Type.Optional(time("Since when it is paused.")),
    pausedSeconds: Type.Optional(int64("How long it was paused before.")),
    expiryBase: Type.Optional(
      Type.Object(
        {
          expireTime: time("The expiry in the spec."),
          pausedSeconds: int64("pausedSeconds when the spec got that expiry."),
        },
        { description: "What the expiry counts from: time for which it was paused since then is added." },
      ),
    ),
    startTime: Type.Optional(time("Start time of this instance.")),
    finishTime: Type.Optional(time("Finish time of this instance.")),
    runtime: Type.Optional(
      Type.Object(
        {
          sandboxID: Type.String({ description: "The instance that this describes." }),
          phase: Type.String({ description: "creating, running, stopped, failed, terminating or terminated." }),
          message: Type.Optional(Type.String({ description: "Human-readable details." })),
          exitCode: Type.Optional(int32("Exit code of its program.")),
          paused: Type.Optional(Type.Boolean({ description: "Whether its processes are frozen." })),
          idleSince: Type.Optional(time("Since when nothing uses it. Reported with idleTimeoutSeconds only.")),
          deniedFlows: Type.Optional(int64("Number of connections and name lookups that its network access denied.")),
          deniedDestinations: Type.Optional(
            Type.Array(Type.String(), { description: "Some of the denied destinations: address:port/protocol, or names." }),
          ),
        },
        { description: "State reported by the agent." },
      ),
    ),
    agentLostTime: Type.Optional(time("Time since which its agent does not report.")),
    conditions: Type.Optional(conditions("Ready: its program runs.")),
  },
  { description: "The observed state." },
);

/** A sandbox: one isolated program of a pool. */
export const Sandbox = defineResource({
  group,
  version,
  kind: "Sandbox",
  plural: "sandboxes",
  shortNames: ["sb"],
  description: "A sandbox: an isolated program on an agent of a pool.",
  spec,
  status,
  columns: [
    { name: "Image", type: "string", jsonPath: ".spec.image" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Pod", type: "string", jsonPath: ".status.assignedPod" },
    { name: "Node", type: "string", jsonPath: ".status.nodeName", priority: 1 },
    { name: "Expires", type: "string", jsonPath: ".status.expireTime", priority: 1 },
    { name: "Message", type: "string", jsonPath: ".status.message", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Sandbox = ObjectType<typeof Sandbox>;

/** Phases that end when the agent reports the sandbox. */
export const startingPhases: ReadonlySet<Phase | undefined> = new Set([undefined, "Creating", "Bound"]);
