import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { anyObject, choice, conditions, int32, int64, listMap, time } from "@keelson/api-machinery/fields";
import type { PodTemplate } from "@keelson/api-machinery/kinds";
import { Type } from "typebox";
import { defaultSandboxesPerAgent, group, version } from "./names.ts";
import { resourceLimits } from "./resource-limits.ts";

/** Maximum of `warm.shells`. */
export const maxWarmShells = 100;
/** Maximum of `warm.perImage`. */
export const maxWarmPerImage = 20;

const count = (description: string) => Type.Optional(int32(description, { minimum: 0, maximum: 10_000 }));

const spec = Type.Object(
  {
    capacity: Type.Optional(
      Type.Object(
        {
          poolMin: count("Minimum number of agents."),
          poolMax: count("Maximum number of agents. Default: poolMin, at least 1."),
          burstMax: count("Maximum number of agents above poolMax for sandboxes with whenFull Burst. Default: 0."),
          bufferMin: count("Number of sandbox slots kept free."),
          bufferMax: count(
            "Number of free slots above which idle agents are removed. Default: bufferMin plus the slots of one agent.",
          ),
        },
        { description: "The size of the pool." },
      ),
    ),
    maxSandboxesPerPod: Type.Optional(
      int32("Maximum number of sandboxes per agent.", { minimum: 1, maximum: 1000, default: defaultSandboxesPerAgent }),
    ),
    warm: Type.Optional(
      Type.Object(
        {
          shells: Type.Optional(
            int32("Number of slots per agent for sandboxes of any image.", { minimum: 0, maximum: maxWarmShells, default: 0 }),
          ),
          perImage: Type.Optional(
            int32(
              "Number of slots per agent for each of the images that were used last, at most 4, with their files mounted. Start faster than shells.",
              { minimum: 0, maximum: maxWarmPerImage, default: 0 },
            ),
          ),
        },
        {
          description:
            "Slots in which sandboxes without network start faster. Bubblewrap as root only. Applies to agents created after a change.",
        },
      ),
    ),
    resources: resourceLimits("Default resources of sandboxes. Applies to agents created after a change."),
    runtimeType: Type.Optional(
      choice(
        ["container", "gvisor"],
        "What isolates sandboxes: the driver that the operator was started with, or gVisor through containerd, which requires runsc on the machines of the agents. Applies to agents created after a change.",
        {
          default: "container",
        },
      ),
    ),
    agentTemplate: Type.Optional(
      anyObject<PodTemplate>("Template of the agents' Pods; the container `agent`, or else the first one, runs the agent."),
    ),
  },
  { description: "The desired agents." },
);

const status = Type.Object(
  {
    observedGeneration: Type.Optional(int64("The generation of spec that this status reflects.")),
    currentPods: Type.Optional(int32("Number of agents.")),
    readyPods: Type.Optional(int32("Number of agents that report.")),
    totalAgents: Type.Optional(int32("The same as currentPods.")),
    idleAgents: Type.Optional(int32("Agents without sandboxes.")),
    busyAgents: Type.Optional(int32("Agents with sandboxes.")),
    warm: Type.Optional(
      Type.Object(
        {
          desired: int32("Number of warm slots that the reporting agents keep ready."),
          ready: int32("Number of warm slots that are ready."),
          observedTime: time("Time at which ready was counted. Changes of ready alone are recorded at most every 5 seconds."),
          message: Type.Optional(Type.String({ description: "Why slots are not ready." })),
        },
        { description: "The warm slots of all agents. Absent if the agents keep none." },
      ),
    ),
    agents: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the agent's Pod." }),
          ready: Type.Boolean({ description: "Whether the agent reports." }),
          since: time("Time of the last change of ready."),
          message: Type.Optional(Type.String({ description: "Why the agent is not ready." })),
        }),
        listMap("name", "The agents of the pool."),
      ),
    ),
    conditions: Type.Optional(conditions("Ready: all desired agents report.")),
  },
  { description: "The observed state of the pool." },
);

/** A pool of agents that run sandboxes. */
export const SandboxPool = defineResource({
  group,
  version,
  kind: "SandboxPool",
  plural: "sandboxpools",
  shortNames: ["sbp"],
  description: "A pool of agents that run sandboxes.",
  spec,
  status,
  columns: [
    { name: "Min", type: "integer", jsonPath: ".spec.capacity.poolMin" },
    { name: "Max", type: "integer", jsonPath: ".spec.capacity.poolMax" },
    { name: "Agents", type: "integer", jsonPath: ".status.currentPods" },
    { name: "Ready", type: "integer", jsonPath: ".status.readyPods" },
    { name: "Busy", type: "integer", jsonPath: ".status.busyAgents" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type SandboxPool = ObjectType<typeof SandboxPool>;
