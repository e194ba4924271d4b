import { type DeepReadonly, defineResource, type ObjectType } from "@keelson/api-machinery";
import { choice, conditions, int64, time } from "@keelson/api-machinery/fields";
import { intOrStringSchema } from "@keelson/api-machinery/schema";
import { Type } from "typebox";
import { group, version } from "./names.ts";
import { positiveQuantity } from "./resource-limits.ts";

/** Phases of a SandboxVolume. */
export const volumePhases = ["Pending", "Ready", "Away", "Lost", "Failed", "Deleting"] as const;

/** One of {@link volumePhases}. */
export type VolumePhase = (typeof volumePhases)[number];

/** Sizes of a volume in bytes: a file system needs the minimum for itself. */
export const volumeSizes = { min: 16 * 2 ** 20, max: 2 ** 40 } as const;

const spec = Type.Object(
  {
    poolRef: Type.String({
      description: "Name of the SandboxPool whose sandboxes may use it.",
      minLength: 1,
      maxLength: 253,
    }),
    size: intOrStringSchema({
      description:
        "Size including the file system's own data, 16Mi to 1Ti. The space is allocated when the volume is created. It can grow, even while sandboxes use the volume, but not shrink.",
      pattern: positiveQuantity,
      "x-kubernetes-validations": [
        { rule: "quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0", message: "size cannot be reduced" },
        {
          rule: "self == oldSelf || quantity(string(self)).compareTo(quantity('1Ti')) <= 0",
          message: "size cannot grow beyond 1Ti",
        },
      ],
    }),
  },
  {
    description: "The desired volume.",
    "x-kubernetes-validations": [{ rule: "self.poolRef == oldSelf.poolRef", message: "poolRef cannot be changed" }],
  },
);

const status = Type.Object(
  {
    phase: Type.Optional(
      choice(volumePhases, "Away: its agent does not report. Lost: its agent reports, but no longer has it."),
    ),
    message: Type.Optional(Type.String({ description: "Human-readable details." })),
    observedGeneration: Type.Optional(int64("The generation of spec that this status reflects.")),
    assignedPod: Type.Optional(Type.String({ description: "The agent that has it. Sandboxes that use it run there." })),
    nodeName: Type.Optional(Type.String({ description: "The agent's node." })),
    size: Type.Optional(Type.String({ description: "Current size. Smaller than spec.size while the volume grows." })),
    createdTime: Type.Optional(time("Time at which its agent had created it.")),
    conditions: Type.Optional(conditions("Ready: sandboxes can use it.")),
  },
  { description: "The observed state of the volume." },
);

/** Storage that outlives sandboxes, on one agent of a pool. */
export const SandboxVolume = defineResource({
  group,
  version,
  kind: "SandboxVolume",
  plural: "sandboxvolumes",
  shortNames: ["sbv"],
  description: "Storage that outlives the sandboxes that use it, on one agent of a pool.",
  spec,
  status,
  columns: [
    { name: "Pool", type: "string", jsonPath: ".spec.poolRef" },
    { name: "Size", type: "string", jsonPath: ".spec.size" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Pod", type: "string", jsonPath: ".status.assignedPod" },
    { name: "Message", type: "string", jsonPath: ".status.message", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type SandboxVolume = ObjectType<typeof SandboxVolume>;

/** Indexes of SandboxVolumes: by pool. */
export const volumeIndexes = { pool: (volume: DeepReadonly<SandboxVolume>) => [volume.spec.poolRef] };
