import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { choice, conditions, int32, int64, time } from "@keelson/api-machinery/fields";
import { earlierVersion, group, version } from "./names.ts";

const spec = Type.Object(
  {
    image: Type.String({
      description:
        "Image of the launcher and of the workers: it has the program and its MPI. Not read where Pods run without images.",
      minLength: 1,
    }),
    parallelism: int32("How many ranks the program runs in, each in a worker of its own.", {
      minimum: 1,
      maximum: 10_000,
      default: 1,
    }),
    ttl: int32("Seconds after its end at which the job is deleted, with its Pods and their logs. 0: it is kept.", {
      minimum: 0,
      default: 600,
    }),
    appExec: Type.String({
      description: "The program: a path, as it is found from the working directory, or a name on the PATH.",
      minLength: 1,
    }),
    appArgs: Type.Optional(Type.Array(Type.String(), { description: "Its arguments. No shell reads them." })),
    dataServer: Type.Optional(Type.String({ description: "NFS server whose dataPath the workers have at /data." })),
    dataPath: Type.Optional(Type.String({ description: "Path on dataServer." })),
    memoryAllocationMode: choice(
      ["FixedTotalMemory", "FixedPerCoreMemory"],
      "What memoryAllocationSize is about: the whole job, or each worker.",
      { default: "FixedPerCoreMemory" },
    ),
    memoryAllocationSize: int32("GiB of memory that the workers ask Alibaba's elastic container instances for.", {
      minimum: 1,
      default: 2,
    }),
    mpiImplementation: choice(
      ["Auto", "OpenMPI", "MPICH"],
      "Which MPI starts the program. Auto: the one that it is linked with; where it does not tell, the image's mpiexec.",
      { default: "Auto" },
    ),
    workingDir: Type.Optional(Type.String({ description: "Where the program runs. Default: the image's." })),
    startDeadlineSeconds: Type.Optional(
      int32("Seconds that workers have to join once the launcher runs. Absent: the launcher waits.", { minimum: 1 }),
    ),
    activeDeadlineSeconds: Type.Optional(
      int32("Seconds that the job may take from the launcher's start. Absent: as long as it needs.", { minimum: 1 }),
    ),
  },
  {
    description: "The program to run.",
    "x-kubernetes-validations": [
      {
        rule: "(has(self.dataServer) && self.dataServer != '') == (has(self.dataPath) && self.dataPath != '')",
        message: "dataServer and dataPath go together: give both or none",
      },
    ],
  },
);

/** Where a RhinoJob stands. */
export const jobStatuses = ["Pending", "Running", "Failed", "Completed", "ImageError"] as const;
export type JobStatus = (typeof jobStatuses)[number];

const status = Type.Object(
  {
    jobStatus: Type.Optional(
      choice(
        jobStatuses,
        "Pending: launcher or workers do not run yet, message says what is waited for; ImageError: the image cannot be had; Running: all of them run; Completed: the program ended with 0 in every rank; Failed.",
      ),
    ),
    message: Type.Optional(Type.String({ description: "What is waited for, or why it failed, for people." })),
    exitCode: Type.Optional(int32("Exit status of mpiexec, once it has ended.")),
    launcherPodNames: Type.Optional(Type.Array(Type.String(), { description: "The launcher's Pod." })),
    workerPodNames: Type.Optional(Type.Array(Type.String(), { description: "The workers' Pods." })),
    startTime: Type.Optional(time("When the launcher was made.")),
    completionTime: Type.Optional(time("When the job ended. The time to live counts from here.")),
    observedGeneration: Type.Optional(int64("Generation of spec that this status is about.")),
    conditions: Type.Optional(conditions("LauncherReady, Running, Completed and Failed.")),
  },
  { description: "How it goes." },
);

/** An MPI program, run by a launcher and a worker a rank. */
export const RhinoJob = defineResource({
  group,
  version,
  servedVersions: [earlierVersion],
  kind: "RhinoJob",
  plural: "rhinojobs",
  description: "An MPI program, run in as many ranks as wanted, each in a Pod of its own, without ssh.",
  spec,
  status,
  columns: [
    { name: "Parallelism", type: "integer", jsonPath: ".spec.parallelism" },
    { name: "Status", type: "string", jsonPath: ".status.jobStatus" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Exit", type: "integer", jsonPath: ".status.exitCode", priority: 1 },
    { name: "Program", type: "string", jsonPath: ".spec.appExec", priority: 1 },
  ],
});
export type RhinoJob = ObjectType<typeof RhinoJob>;
export type RhinoJobSpec = Static<typeof spec>;
