import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { Type } from "typebox";
import { anyObject, choice, conditions, int32, int64, time } from "@keelson/api-machinery/fields";
import { group, version } from "./names.ts";
import { resourceLimits } from "./resource-limits.ts";

/** Where a Sandbox stands. See `sandbox-decision.ts` for how it moves. */
export const phases = [
  "Pending",
  "Creating",
  "Bound",
  "Running",
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
      Type.Array(Type.String(), { description: "What to run instead of the image's own.", maxItems: 1024 }),
    ),
    args: Type.Optional(Type.Array(Type.String(), { description: "Its arguments.", maxItems: 1024 })),
    envs: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the variable.", minLength: 1, pattern: "^[^=]+$" }),
          value: Type.Optional(Type.String({ description: "Its value." })),
          valueFrom: Type.Optional(
            anyObject<{ secretKeyRef?: { name?: string; key: string; optional?: boolean } }>(
              "Where the value is: a secretKeyRef or configMapKeyRef of the namespace.",
            ),
          ),
        }),
        { description: "Its environment.", maxItems: 1024 },
      ),
    ),
    workingDir: Type.Optional(Type.String({ description: "Where it runs. Default: a folder of its own.", pattern: "^/" })),
    exposedPorts: Type.Optional(
      Type.Array(int32("A port.", { minimum: 1, maximum: 65535 }), {
        description: "Ports that it listens on. No two sandboxes of one agent have one in common.",
        "x-kubernetes-list-type": "set",
        maxItems: 64,
      }),
    ),
    resources: resourceLimits("What it gets of its machine. Default: what its pool says."),
    expireTime: Type.Optional(time("When it is stopped; the object stays.")),
    expireTimeSeconds: Type.Optional(int64("The same as Unix seconds; 0: never. expireTime goes before it.", { minimum: 0 })),
    consistencyMode: Type.Optional(
      choice(["fast", "strong", "FAST", "STRONG"], "How the fast path made it; of no effect on an object that is here."),
    ),
    failurePolicy: Type.Optional(
      choice(["Manual", "AutoRecreate", "manual", "autoRecreate"], "What follows when its agent is lost.", {
        default: "Manual",
      }),
    ),
    recoveryTimeoutSeconds: Type.Optional(
      int32("How long a lost agent is waited for before the sandbox is made anew elsewhere.", { minimum: 1, default: 60 }),
    ),
    resetRevision: Type.Optional(time("A moment later than the last one starts the sandbox anew.")),
  },
  { description: "What is to run." },
);

const status = Type.Object(
  {
    phase: Type.Optional(choice(phases, "Where it stands.")),
    message: Type.Optional(Type.String({ description: "Why, for people." })),
    observedGeneration: Type.Optional(int64("Generation of spec that this status is about.")),
    assignedPod: Type.Optional(Type.String({ description: "The agent that has it." })),
    nodeName: Type.Optional(Type.String({ description: "The agent's node." })),
    sandboxID: Type.Optional(Type.String({ description: "Its name in the agent." })),
    endpoints: Type.Optional(Type.Array(Type.String(), { description: "address:port of what it exposes." })),
    acceptedResetRevision: Type.Optional(time("The last resetRevision that was acted upon.")),
    instance: Type.Optional(int64("How often it was started anew: the next instance has another sandboxID.")),
    exitCode: Type.Optional(int32("How its program ended.")),
    startTime: Type.Optional(time("When this instance began.")),
    finishTime: Type.Optional(time("When it ended.")),
    runtime: Type.Optional(
      Type.Object(
        {
          sandboxID: Type.String({ description: "Which instance this is about." }),
          phase: Type.String({ description: "creating, running, stopped, failed, terminating or terminated." }),
          message: Type.Optional(Type.String({ description: "Why, for people." })),
          exitCode: Type.Optional(int32("How its program ended.")),
        },
        { description: "What the agent says of it." },
      ),
    ),
    agentLostTime: Type.Optional(time("Since when its agent is not heard of.")),
    conditions: Type.Optional(conditions("Ready: its program runs.")),
  },
  { description: "How it is." },
);

/** A sandbox: one isolated program of a pool. */
export const Sandbox = defineResource({
  group,
  version,
  kind: "Sandbox",
  plural: "sandboxes",
  shortNames: ["sb"],
  description: "A sandbox: a program that runs apart from everything else, on an agent of a pool.",
  spec,
  status,
  columns: [
    { name: "Image", type: "string", jsonPath: ".spec.image" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Pod", type: "string", jsonPath: ".status.assignedPod" },
    { name: "Node", type: "string", jsonPath: ".status.nodeName", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type Sandbox = ObjectType<typeof Sandbox>;
