import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { choice, int32 } from "@keelson/api-machinery/fields";
import { type Static, Type } from "typebox";
import { type PodTemplateOverlay, status } from "./rhino-job.ts";
import { runPolicy } from "./run-policy.ts";

const template = Type.Unsafe<PodTemplateOverlay>({
  type: "object",
  description: "A PodTemplateSpec.",
  "x-kubernetes-preserve-unknown-fields": true,
  required: ["spec"],
  properties: {
    spec: {
      type: "object",
      description: "A PodSpec.",
      "x-kubernetes-preserve-unknown-fields": true,
      required: ["containers"],
      properties: {
        containers: {
          type: "array",
          description: "Containers. The first one takes part in the job.",
          minItems: 1,
          items: { type: "object", description: "A Container.", "x-kubernetes-preserve-unknown-fields": true },
        },
      },
    },
  },
});

const restartPolicy = choice(
  ["Never", "OnFailure"],
  "Accepted and not used: a failed Pod fails the attempt, and runPolicy.backoffLimit decides about another one.",
);

const launcher = Type.Object(
  {
    replicas: Type.Optional(int32("Must be 1.", { minimum: 1, maximum: 1, default: 1 })),
    restartPolicy: Type.Optional(restartPolicy),
    template,
  },
  { description: "The launcher. The command and arguments of its first container start mpiexec." },
);
const worker = Type.Object(
  {
    replicas: Type.Optional(int32("Number of workers.", { minimum: 1, maximum: 10_000, default: 1 })),
    restartPolicy: Type.Optional(restartPolicy),
    template,
  },
  { description: "The workers. The command and probes of their first container, which start an SSH server, are not used." },
);

const spec = Type.Object(
  {
    slotsPerWorker: Type.Optional(int32("Number of ranks per worker in the hostfile.", { minimum: 1, default: 1 })),
    runLauncherAsWorker: Type.Optional(
      Type.Boolean({ description: "Whether the launcher's Pod also is the first worker.", default: false }),
    ),
    runPolicy: Type.Optional(runPolicy),
    mpiReplicaSpecs: Type.Object(
      { Launcher: launcher, Worker: Type.Optional(worker) },
      { description: "The Pods of the launcher and the workers." },
    ),
    sshAuthMountPath: Type.Optional(
      Type.String({ description: "Accepted and not used: there is no SSH.", default: "/root/.ssh" }),
    ),
    launcherCreationPolicy: Type.Optional(
      choice(
        ["AtStartup", "WaitForWorkersReady"],
        "When the launcher's command starts: with its Pod, or when all workers have joined.",
        { default: "AtStartup" },
      ),
    ),
    mpiImplementation: Type.Optional(
      choice(["OpenMPI", "Intel", "MPICH"], "MPI implementation, which decides the format of the hostfile.", {
        default: "OpenMPI",
      }),
    ),
  },
  {
    description: "The Pods of the job.",
    "x-kubernetes-validations": [
      {
        rule: "(has(self.runPolicy) && has(self.runPolicy.managedBy) ? self.runPolicy.managedBy : '') == (has(oldSelf.runPolicy) && has(oldSelf.runPolicy.managedBy) ? oldSelf.runPolicy.managedBy : '')",
        message: "field is immutable",
        fieldPath: ".runPolicy.managedBy",
      },
    ],
  },
);

/** An MPI job as of Kubeflow's mpi-operator, run by the same controller as a RhinoJob, without SSH. */
export const MPIJob = defineResource({
  group: "kubeflow.org",
  version: "v2beta1",
  kind: "MPIJob",
  plural: "mpijobs",
  description: "An MPI job of Kubeflow's mpi-operator: a launcher whose command starts mpiexec, and workers. It needs no SSH.",
  spec,
  status,
  columns: [
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "State", type: "string", jsonPath: ".status.jobStatus" },
    { name: "Queue", type: "string", jsonPath: ".status.queue.name" },
    { name: "Position", type: "integer", jsonPath: ".status.queue.position" },
    { name: "Reason", type: "string", jsonPath: ".status.queue.reason" },
    { name: "Message", type: "string", jsonPath: ".status.message", priority: 1 },
  ],
});
export type MPIJob = ObjectType<typeof MPIJob>;
/** Desired state of an MPIJob. */
export type MPIJobSpec = Static<typeof spec>;
