import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { int32, int64, time } from "@keelson/api-machinery/fields";
import { type Static, Type } from "typebox";
import { group, version } from "./names.ts";

/** Name of the queue of jobs that name none. It needs no MPIQueue. */
export const defaultQueueName = "default";

const amounts = (description: string) =>
  Type.Optional(
    Type.Unsafe<Record<string, string | number>>({
      type: "object",
      description,
      additionalProperties: {
        anyOf: [{ type: "integer" }, { type: "string" }],
        "x-kubernetes-int-or-string": true,
        pattern:
          "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
      },
    }),
  );

const spec = Type.Object(
  {
    quota: amounts(
      "Maximum total requests of the queue's admitted jobs, by resource: cpu, memory, pods or a device. A resource that is not listed is not limited.",
    ),
    namespaceQuota: amounts("Maximum total requests of the queue's admitted jobs in one namespace, by resource."),
    namespaces: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        description: "Namespaces whose jobs may use the queue. Default: all.",
      }),
    ),
    hold: Type.Optional(
      Type.Boolean({ description: "Whether to admit no further jobs. Running jobs continue. Default false." }),
    ),
    ignoreCapacity: Type.Optional(
      Type.Boolean({
        description:
          "Whether to admit jobs by quota only, without regard to the free capacity of nodes, for clusters whose autoscaler adds nodes for pending Pods. Default false.",
      }),
    ),
  },
  { description: "Limits of the queue." },
);

const status = Type.Object(
  {
    pending: Type.Optional(int32("Number of jobs that wait for admission.")),
    admitted: Type.Optional(int32("Number of jobs that are admitted and have not ended.")),
    used: amounts("Total requests of the admitted jobs, by resource."),
    observedGeneration: Type.Optional(int64("Generation of spec that this status reflects.")),
  },
  { description: "Use of the queue." },
);

/** Limits of the jobs that name it in `runPolicy.schedulingPolicy.queue`; the one named `default` limits jobs that name none. */
export const MPIQueue = defineResource({
  group,
  version,
  kind: "MPIQueue",
  plural: "mpiqueues",
  scope: "Cluster",
  description:
    "A queue of MPI jobs with quotas. Jobs name it in spec.runPolicy.schedulingPolicy.queue; the queue named default has those that name none.",
  spec,
  status,
  columns: [
    { name: "Pending", type: "integer", jsonPath: ".status.pending" },
    { name: "Admitted", type: "integer", jsonPath: ".status.admitted" },
    { name: "Hold", type: "boolean", jsonPath: ".spec.hold", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type MPIQueue = ObjectType<typeof MPIQueue>;
/** Limits of an MPIQueue. */
export type MPIQueueSpec = Static<typeof spec>;

/** Why a job waits for its admission. */
export const waitReasons = [
  "InsufficientCapacity",
  "QuotaExceeded",
  "WaitsForHead",
  "ExceedsCapacity",
  "ExceedsQuota",
  "QueueNotFound",
  "QueueHeld",
  "NamespaceNotAllowed",
] as const;
/** Why a job waits for its admission: one of {@link waitReasons}. */
export type WaitReason = (typeof waitReasons)[number];

/** Status of a job in its queue. */
export const queueStatus = Type.Object(
  {
    name: Type.String({ description: "Name of the queue." }),
    position: Type.Optional(
      int32("Position among the jobs of all queues that wait for admission, from 1. Updated at most once per second."),
    ),
    reason: Type.Optional(
      Type.String({
        description:
          "Why the job waits: InsufficientCapacity, QuotaExceeded, WaitsForHead, QueueHeld; or, without a position, why it cannot be admitted: ExceedsCapacity, ExceedsQuota, QueueNotFound, NamespaceNotAllowed.",
      }),
    ),
    message: Type.Optional(Type.String({ description: "Details of the reason." })),
    queuedAt: Type.Optional(time("Time since which the attempt waits or has waited.")),
    admittedAttempt: Type.Optional(int32("Number of the last attempt that was admitted.")),
    admittedAt: Type.Optional(time("Time of that admission.")),
  },
  { description: "Admission of the job's attempts. Unset for jobs that another system admits, such as Kueue." },
);
/** Status of a job in its queue. */
export type QueueStatus = Static<typeof queueStatus>;
