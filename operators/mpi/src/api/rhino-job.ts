import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { choice, conditions, int32, int64, time } from "@keelson/api-machinery/fields";
import type { Container, PodSpec } from "@keelson/api-machinery/kinds";
import { earlierVersion, group, version } from "./names.ts";
import { queueStatus } from "./mpi-queue.ts";
import { replicaStatuses, runPolicy } from "./run-policy.ts";

/** Fields that cannot change, because the launcher and workers are created from them once. */
const requiredFields = [
  "image",
  "parallelism",
  "appExec",
  "memoryAllocationMode",
  "memoryAllocationSize",
  "mpiImplementation",
] as const;
const optionalFields = [
  "appArgs",
  "dataServer",
  "dataPath",
  "workingDir",
  "startDeadlineSeconds",
  "activeDeadlineSeconds",
  "stdin",
  "slotsPerWorker",
  "runLauncherAsWorker",
  "hostfile",
  "labelOutput",
  "checkpoint",
] as const;

const immutable = (field: string, rule: string) => ({
  rule,
  message: "field is immutable",
  fieldPath: `.${field}`,
});

/** Part of a Pod template, with any field of a PodTemplateSpec. */
const podTemplate = (description: string) =>
  Type.Optional(Type.Unsafe<PodTemplateOverlay>({ type: "object", description, "x-kubernetes-preserve-unknown-fields": true }));

/** Fields of a PodTemplateSpec that a RhinoJob adds to its Pods. */
export interface PodTemplateOverlay {
  metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
  spec?: Omit<Partial<PodSpec>, "containers"> & { containers?: (Partial<Container> & { name?: string })[] };
}

const spec = Type.Object(
  {
    image: Type.String({
      description:
        "Image of the launcher and the workers, with the program and its MPI. Ignored where Pods run without images.",
      minLength: 1,
    }),
    parallelism: int32("Number of ranks.", {
      minimum: 1,
      maximum: 10_000,
      default: 1,
    }),
    slotsPerWorker: Type.Optional(
      int32(
        "Maximum number of ranks per worker, which share its memory. The number of workers is parallelism / slotsPerWorker, rounded up. Default 1.",
        { minimum: 1, maximum: 10_000 },
      ),
    ),
    runLauncherAsWorker: Type.Optional(
      Type.Boolean({ description: "Whether the launcher's Pod also is the first worker. Default false." }),
    ),
    hostfile: Type.Optional(
      Type.Boolean({
        description:
          "Whether to create a headless Service for the workers' host names and mount a ConfigMap with hostfile and discover_hosts.sh at /etc/mpi. Default false.",
      }),
    ),
    ttl: int32("Seconds after the job finishes until it is deleted with its Pods and logs. 0 keeps it.", {
      minimum: 0,
      default: 600,
    }),
    appExec: Type.String({
      description: "Program: a path relative to the working directory, or a name on the PATH.",
      minLength: 1,
    }),
    appArgs: Type.Optional(Type.Array(Type.String(), { description: "Arguments. They do not pass through a shell." })),
    dataServer: Type.Optional(Type.String({ description: "NFS server. The workers mount its dataPath at /data." })),
    dataPath: Type.Optional(Type.String({ description: "Path on dataServer." })),
    memoryAllocationMode: choice(
      ["FixedTotalMemory", "FixedPerCoreMemory"],
      "Whether memoryAllocationSize applies to the whole job or to each worker.",
      { default: "FixedPerCoreMemory" },
    ),
    memoryAllocationSize: int32("GiB of memory that the workers request from Alibaba's elastic container instances.", {
      minimum: 1,
      default: 2,
    }),
    mpiImplementation: choice(
      ["Auto", "OpenMPI", "MPICH"],
      "MPI implementation that starts the program. Auto: the one that it is linked with; if that is unknown, the image's mpiexec.",
      { default: "Auto" },
    ),
    workingDir: Type.Optional(Type.String({ description: "Working directory of the program. Default: the image's." })),
    stdin: Type.Optional(
      Type.Boolean({ description: "Whether rank 0 reads the standard input that a client attaches to the launcher's Pod." }),
    ),
    labelOutput: Type.Optional(
      Type.Boolean({
        description:
          "Whether every line of output starts with its rank, for keelson mpi logs --rank. Lines stay whole. Default false.",
      }),
    ),
    checkpoint: Type.Optional(
      Type.Object(
        {
          directory: Type.String({
            description:
              "Directory in the Pods that outlives them, such as one of a mounted volume. The job gets a directory in it, whose path is in KEELSON_JOB_CHECKPOINT_DIR.",
            pattern: "^/",
          }),
          preRestartCommand: Type.Optional(
            Type.Array(Type.String(), {
              description:
                "Command that the launcher runs before every attempt but the first, for example to choose a checkpoint. The attempt fails if it does. It does not pass through a shell.",
              minItems: 1,
            }),
          ),
        },
        { description: "Where attempts find the state of those before them." },
      ),
    ),
    startDeadlineSeconds: Type.Optional(
      int32("Seconds from the launcher's start until all workers must have joined. Unset: no limit.", { minimum: 1 }),
    ),
    launcherTemplate: podTemplate(
      "Added to the launcher's Pod: fields of a PodTemplateSpec, such as resources, nodeSelector or tolerations. Read when the launcher is created.",
    ),
    workerTemplate: podTemplate(
      "Added to the workers' Pods: fields of a PodTemplateSpec, such as environment variables, resources, volumes, nodeSelector or securityContext. The first container, or the one named rhino-mpi-worker, is merged into the worker's; others run alongside it. Read when the workers are created.",
    ),
    activeDeadlineSeconds: Type.Optional(
      int32("Seconds from the launcher's start until the job must have ended, with all attempts. Unset: no limit.", {
        minimum: 1,
      }),
    ),
    runPolicy: Type.Optional(runPolicy),
  },
  {
    description: "The program to run.",
    "x-kubernetes-validations": [
      {
        rule: "(has(self.dataServer) && self.dataServer != '') == (has(self.dataPath) && self.dataPath != '')",
        message: "dataServer and dataPath must be set together",
      },
      immutable(
        "runPolicy.managedBy",
        "(has(self.runPolicy) && has(self.runPolicy.managedBy) ? self.runPolicy.managedBy : '') == (has(oldSelf.runPolicy) && has(oldSelf.runPolicy.managedBy) ? oldSelf.runPolicy.managedBy : '')",
      ),
      ...requiredFields.map((field) => immutable(field, `self.${field} == oldSelf.${field}`)),
      ...optionalFields.map((field) =>
        immutable(
          field,
          `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
        ),
      ),
    ],
  },
);

/** States of a RhinoJob. */
export const jobStatuses = ["Pending", "Running", "Failed", "Completed", "ImageError", "Suspended"] as const;
/** State of a RhinoJob: one of {@link jobStatuses}. */
export type JobStatus = (typeof jobStatuses)[number];

/** Status of a job of either kind. */
export const status = Type.Object(
  {
    jobStatus: Type.Optional(
      choice(
        jobStatuses,
        "Pending: the launcher or workers are not running yet, see message; ImageError: the image cannot be pulled; Running: all of them are running; Completed: the program exited with 0 in every rank; Failed; Suspended: stopped by runPolicy.suspend.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "What the job waits for, or why it failed." })),
    queue: Type.Optional(queueStatus),
    exitCode: Type.Optional(int32("Exit status of the rank that failed first, otherwise of mpiexec.")),
    attempt: Type.Optional(int32("Number of the current attempt, from 1.")),
    failures: Type.Optional(int32("Number of failed attempts that led to another one.")),
    replicaStatuses: Type.Optional(replicaStatuses),
    launcherPodNames: Type.Optional(Type.Array(Type.String(), { description: "Name of the launcher's Pod." })),
    workerPodNames: Type.Optional(Type.Array(Type.String(), { description: "Names of the workers' Pods." })),
    startTime: Type.Optional(time("Time of the first launcher's creation, or of the last resume.")),
    completionTime: Type.Optional(time("Time of the job's end. The ttl counts from here.")),
    observedGeneration: Type.Optional(int64("Generation of spec that this status reflects.")),
    conditions: Type.Optional(
      conditions("Created, LauncherReady, WorkersCreated, Running, Restarting, Suspended, Succeeded, Completed and Failed."),
    ),
  },
  { description: "Observed state of the job." },
);

/** An MPI program, run by a launcher and one worker per rank. */
export const RhinoJob = defineResource({
  group,
  version,
  servedVersions: [earlierVersion],
  kind: "RhinoJob",
  plural: "rhinojobs",
  description: "An MPI program whose ranks each run in their own Pod, without ssh.",
  spec,
  status,
  columns: [
    { name: "Parallelism", type: "integer", jsonPath: ".spec.parallelism" },
    { name: "Status", type: "string", jsonPath: ".status.jobStatus" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Queue", type: "string", jsonPath: ".status.queue.name" },
    { name: "Position", type: "integer", jsonPath: ".status.queue.position" },
    { name: "Reason", type: "string", jsonPath: ".status.queue.reason" },
    { name: "Exit", type: "integer", jsonPath: ".status.exitCode", priority: 1 },
    { name: "Program", type: "string", jsonPath: ".spec.appExec", priority: 1 },
  ],
});
export type RhinoJob = ObjectType<typeof RhinoJob>;
/** Desired state of a RhinoJob. */
export type RhinoJobSpec = Static<typeof spec>;
