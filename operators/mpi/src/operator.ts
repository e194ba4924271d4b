import { randomBytes } from "node:crypto";
import type { Operator } from "@keelson/operator";
import { group } from "./api/names.ts";
import { MPIJob } from "./api/mpi-job.ts";
import { MPIQueue } from "./api/mpi-queue.ts";
import { RhinoJob } from "./api/rhino-job.ts";
import { gangSchedulingOf } from "./gang/gang-scheduling.ts";
import { controllerFlags, operatorFlags } from "./flags.ts";
import { commands } from "./commands/commands.ts";
import type { PodTools } from "./children/job-templates.ts";
import { podProgram } from "./children/pod-program-path.ts";
import { createMpiJobController } from "./controllers/mpi-job.ts";
import { createRhinoJobController } from "./controllers/rhino-job.ts";
import { mpiMonitoring } from "./monitoring/mpi-monitoring.ts";
import { createQueueController } from "./queue/queue-controller.ts";

/** In a cluster, launcher and workers come from the Keelson image; otherwise from this installation. */
function podTools(): PodTools {
  const image = process.env.KEELSON_IMAGE;
  return image ? { kind: "image", image } : { kind: "local", command: [process.execPath, podProgram] };
}

/** The MPI family: MPI programs without ssh. */
export const mpi: Operator = {
  name: "mpi",
  description: "run MPI jobs without SSH",
  resources: [RhinoJob, MPIJob, MPIQueue],
  rules: [
    { apiGroups: [group], resources: ["rhinojobs"], verbs: ["get", "list", "watch", "delete"] },
    { apiGroups: [group], resources: ["rhinojobs/status"], verbs: ["patch"] },
    // Required for blockOwnerDeletion if the admission plugin OwnerReferencesPermissionEnforcement is enabled.
    { apiGroups: [group], resources: ["rhinojobs/finalizers"], verbs: ["update"] },
    { apiGroups: [MPIJob.group], resources: ["mpijobs"], verbs: ["get", "list", "watch", "delete"] },
    { apiGroups: [MPIJob.group], resources: ["mpijobs/status"], verbs: ["patch"] },
    { apiGroups: [MPIJob.group], resources: ["mpijobs/finalizers"], verbs: ["update"] },
    { apiGroups: [group], resources: ["mpiqueues"], verbs: ["get", "list", "watch"] },
    { apiGroups: [group], resources: ["mpiqueues/status"], verbs: ["patch"] },
    // For the capacity and the priorities that the queue admits jobs by.
    { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch"] },
    { apiGroups: ["scheduling.k8s.io"], resources: ["priorityclasses"], verbs: ["get", "list", "watch"] },
    // For what the RuntimeClass of a Pod adds to its requests.
    { apiGroups: ["node.k8s.io"], resources: ["runtimeclasses"], verbs: ["get", "list", "watch"] },
    { apiGroups: ["batch"], resources: ["jobs"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] },
    // For the reason why a volume cannot be mounted.
    { apiGroups: [""], resources: ["events"], verbs: ["list"] },
    // Created and never read: only the Pods use the token.
    { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
    // For jobs with a hostfile.
    { apiGroups: [""], resources: ["services"], verbs: ["create"] },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["create", "get", "patch"] },
    // With --gang-scheduling.
    {
      apiGroups: ["scheduling.volcano.sh", "scheduling.x-k8s.io"],
      resources: ["podgroups"],
      verbs: ["get", "create", "patch", "delete"],
    },
    { apiGroups: ["networking.k8s.io"], resources: ["networkpolicies"], verbs: ["create"] },
  ],
  flags: operatorFlags,
  controllers: ({ flags }) => {
    const gang = gangSchedulingOf(controllerFlags.gangScheduling.read(flags));
    const randomToken = (): string => randomBytes(32).toString("base64url");
    const options = { tools: podTools, randomToken, ...(gang === undefined ? {} : { gang }) };
    const jobs = [createRhinoJobController(options), createMpiJobController(options)];
    return gang === undefined ? [createQueueController(options), ...jobs] : jobs;
  },
  servers: [],
  commands,
  listeners: [
    {
      name: "Launchers of MPI jobs",
      address: "a port of the launcher Pod's address",
      authentication: "TLS with the job's token as the pre-shared key",
      permissions: "take part in the job as a worker",
    },
    {
      name: "Ranks of MPI jobs",
      address: "ports that the MPI library chooses, on addresses of workers",
      authentication: "that of the MPI library",
      permissions: "messages of the job",
    },
  ],
  monitoring: mpiMonitoring,
  deployment: {
    toolImage: { variable: "KEELSON_IMAGE" },
    settings: [{ name: "gangScheduling", flag: controllerFlags.gangScheduling.name }],
  },
};
