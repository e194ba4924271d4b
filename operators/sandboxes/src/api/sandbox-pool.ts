import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { anyObject, choice, conditions, int32, int64, listMap, time } from "@keelson/api-machinery/fields";
import type { PodTemplate } from "@keelson/api-machinery/kinds";
import { Type } from "typebox";
import { defaultSandboxesPerAgent, group, version } from "./names.ts";
import { resourceLimits } from "./resource-limits.ts";

const count = (description: string) => Type.Optional(int32(description, { minimum: 0, maximum: 10_000 }));

const spec = Type.Object(
  {
    capacity: Type.Optional(
      Type.Object(
        {
          poolMin: count("Agents that are always there."),
          poolMax: count("Agents that are there at most. Default: poolMin, at least 1."),
          bufferMin: count("Free places for sandboxes that are kept ready."),
          bufferMax: count("Free places above which idle agents go. Default: what bufferMin and one agent hold."),
        },
        { description: "How many agents there are." },
      ),
    ),
    maxSandboxesPerPod: Type.Optional(
      int32("Sandboxes that one agent takes.", { minimum: 1, maximum: 1000, default: defaultSandboxesPerAgent }),
    ),
    resources: resourceLimits("What each sandbox gets that says nothing. Holds for agents that are made from then on."),
    runtimeType: Type.Optional(
      choice(["container", "gvisor"], "What isolates sandboxes. Here: bubblewrap for container; gvisor is refused by agents.", {
        default: "container",
      }),
    ),
    agentTemplate: Type.Optional(
      anyObject<PodTemplate>("Template of the agents' Pods; the container `agent`, or else the first one, runs the agent."),
    ),
  },
  { description: "Which agents the pool has." },
);

const status = Type.Object(
  {
    observedGeneration: Type.Optional(int64("Generation of spec that this status is about.")),
    currentPods: Type.Optional(int32("Agents that were made.")),
    readyPods: Type.Optional(int32("Agents that are heard of.")),
    totalAgents: Type.Optional(int32("The same as currentPods.")),
    idleAgents: Type.Optional(int32("Agents without sandboxes.")),
    busyAgents: Type.Optional(int32("Agents with sandboxes.")),
    agents: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "The agent's name: that of its Pod, where it is one." }),
          ready: Type.Boolean({ description: "Whether it is heard of." }),
          since: time("Since when that is so."),
          message: Type.Optional(Type.String({ description: "Why it is not, for people." })),
        }),
        listMap("name", "The agents of the pool."),
      ),
    ),
    conditions: Type.Optional(conditions("Ready: the pool has the agents that it is to have.")),
  },
  { description: "How the pool is." },
);

/** A pool of agents that run sandboxes. */
export const SandboxPool = defineResource({
  group,
  version,
  kind: "SandboxPool",
  plural: "sandboxpools",
  shortNames: ["sbp"],
  description: "A pool of agents, each with places for some sandboxes.",
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
