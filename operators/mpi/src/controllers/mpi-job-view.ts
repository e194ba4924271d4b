import type { DeepReadonly } from "@keelson/api-machinery";
import type { Container } from "@keelson/api-machinery/kinds";
import { containerNames } from "../api/names.ts";
import type { MPIJob } from "../api/mpi-job.ts";
import type { PodTemplateOverlay } from "../api/rhino-job.ts";
import { labelValue } from "../children/child-names.ts";
import { templateFault } from "../children/template-fault.ts";
import type { JobView } from "./job-view.ts";

/** Attempts of an MPIJob without `backoffLimit`, as of a Job. */
const defaultBackoffLimit = 6;

const mpiLabels = {
  job: "training.kubeflow.org/job-name",
  role: "training.kubeflow.org/job-role",
  operator: "training.kubeflow.org/operator-name",
} as const;

/**
 * An MPIJob as the job that the controller runs. Templates that {@link templateFault} refuses are treated as empty, because the job is
 * refused for them.
 */
export function viewOfMpiJob(job: DeepReadonly<MPIJob>): JobView {
  const { runPolicy = {}, mpiReplicaSpecs, slotsPerWorker = 1, runLauncherAsWorker = false, mpiImplementation } = job.spec;
  const { Launcher, Worker } = mpiReplicaSpecs;
  const [launcher, worker] = [Launcher.template, Worker?.template].map((each) =>
    templateFault(each, "") === undefined ? each : undefined,
  );
  const hosts = (Worker === undefined ? 0 : (Worker.replicas ?? 1)) + (runLauncherAsWorker ? 1 : 0);
  const main = mainContainer(launcher);
  // The entry points of images for mpi-operator execute their arguments.
  const [appExec = "", ...appArgs] = [...(main.command ?? []), ...(main.args ?? [])];
  return {
    apiVersion: job.apiVersion,
    kind: job.kind,
    metadata: job.metadata,
    spec: {
      image: main.image ?? "",
      parallelism: hosts * slotsPerWorker,
      slotsPerWorker,
      runLauncherAsWorker,
      hostfile: true,
      ttl: 0,
      appExec,
      appArgs,
      memoryAllocationMode: "FixedPerCoreMemory",
      memoryAllocationSize: 2,
      mpiImplementation: mpiImplementation === "OpenMPI" || mpiImplementation === undefined ? "OpenMPI" : "MPICH",
      runPolicy: { cleanPodPolicy: "None", backoffLimit: defaultBackoffLimit, ...runPolicy },
      launcherTemplate: templateOf(job, "launcher", launcher),
      workerTemplate: templateOf(job, "worker", worker),
    },
    ...(job.status === undefined ? {} : { status: job.status }),
    session: {
      workerImage: mainContainer(worker).image ?? "",
      containerNames: {
        launcher: main.name ?? containerNames.launcher,
        worker: mainContainer(worker).name ?? containerNames.worker,
      },
      waitsForWorkers: job.spec.launcherCreationPolicy === "WaitForWorkersReady",
    },
  };
}

/** Why an MPIJob cannot run; undefined if it can. The schema checks everything else. */
export function mpiJobFault({ spec }: DeepReadonly<MPIJob>): string | undefined {
  const { Launcher, Worker } = spec.mpiReplicaSpecs;
  const fault =
    templateFault(Launcher.template, "spec.mpiReplicaSpecs[Launcher].template") ??
    templateFault(Worker?.template, "spec.mpiReplicaSpecs[Worker].template");
  if (fault !== undefined) return fault;
  const { command = [], args = [] } = mainContainer(Launcher.template);
  if (command.length + args.length > 0) return undefined;
  const path = "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].command";
  return `${path}: Required value: command or args must start mpiexec, because the image's entry point is not known`;
}

function mainContainer(template: DeepReadonly<PodTemplateOverlay> | undefined): DeepReadonly<Partial<Container>> {
  return template?.spec?.containers?.[0] ?? {};
}

/** The user's template without the command and the probes of its first container, with the labels and variables of mpi-operator. */
function templateOf(
  { metadata }: DeepReadonly<MPIJob>,
  role: "launcher" | "worker",
  template: DeepReadonly<PodTemplateOverlay> | undefined,
): PodTemplateOverlay {
  const copy = structuredClone(template ?? {}) as PodTemplateOverlay;
  const [first = {}, ...others] = copy.spec?.containers ?? [];
  const { command: _command, args: _args, readinessProbe: _ready, livenessProbe: _live, startupProbe: _start, ...main } = first;
  const labels = {
    ...copy.metadata?.labels,
    [mpiLabels.job]: labelValue(metadata.name ?? ""),
    [mpiLabels.operator]: "mpi-operator",
    [mpiLabels.role]: role,
  };
  const env = [...(main.env ?? []), { name: "K_MPI_JOB_ROLE", value: role }];
  return {
    metadata: { ...copy.metadata, labels },
    spec: { ...copy.spec, containers: [{ ...main, env }, ...others] },
  };
}
