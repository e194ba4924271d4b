import { posix } from "node:path";
import type { Container, EnvVar, JobObject, PodSpec, Volume } from "@keelson/api-machinery/kinds";
import { containerNames, labels, tokenKey } from "../api/names.ts";
import type { JobView } from "../controllers/job-view.ts";
import { formatOrder, podVariables, programVariables, rendezvousPort } from "../launch/pod-environment.ts";
import { readyPipeVariable, readyProbeCommand } from "../launch/ready-signal.ts";
import { workerPodCount } from "../launch/launcher/host-layout.ts";
import { type ChildNames, labelValue } from "./child-names.ts";
import { hostNames, hostsFolder, layoutOf } from "./hosts.ts";
import { overlayTemplate } from "./pod-template.ts";
import { deadlineMs } from "../controllers/run-policy.ts";
import { type GangScheduling, inPodGroup } from "../gang/gang-scheduling.ts";

/** How Pods get the launcher and worker programs. */
export type PodTools =
  /** Pods are processes on the operator's machine, started with this command. */
  | { readonly kind: "local"; readonly command: readonly string[] }
  /** Pods are containers. An init container with this Keelson image copies the programs into the Pod. */
  | { readonly kind: "image"; readonly image: string };

const toolsFolder = "/keelson";

/** The Job that runs mpiexec. Its deadline is what is left at `now` of that of all attempts. */
export function launcherJob(
  job: JobView,
  names: ChildNames,
  tools: PodTools,
  now = 0,
  gang?: GangScheduling,
): JobObject["spec"] {
  const { spec } = job;
  const { attempt } = names;
  const order = formatOrder({
    implementation: spec.mpiImplementation,
    ...layoutOf(job),
    ...(job.session === undefined ? {} : { hosts: hostNames(job, names) }),
    ...(job.session?.waitsForWorkers === true ? { waitsForWorkers: true } : {}),
    command: [spec.appExec, ...(spec.appArgs ?? [])],
    ...(spec.startDeadlineSeconds === undefined ? {} : { startDeadlineMs: spec.startDeadlineSeconds * 1000 }),
    ...(spec.stdin === true ? { stdin: true } : {}),
    ...(spec.checkpoint?.preRestartCommand === undefined || attempt === 1 ? {} : { before: spec.checkpoint.preRestartCommand }),
    ...(spec.labelOutput === true ? { labelsOutput: true } : {}),
  });
  const container: Container = {
    ...containerOf(job, "launcher", tools),
    env: [
      { name: podVariables.order, value: order },
      tokenVariable(names),
      { name: readyPipeVariable, value: `keelson-mpi-${job.metadata.uid ?? ""}` },
      { name: podVariables.podIP, valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
      ...attemptVariables(job, names),
    ],
    ports: [{ name: "rendezvous", containerPort: rendezvousPort }],
    ...(spec.stdin === true ? { stdin: true, stdinOnce: true } : {}),
    // The probe blocks until every launch line has been read from mpiexec, so readiness is visible immediately. It is repeated every
    // ten seconds, and failures do not matter.
    startupProbe: {
      exec: { command: [...readyProbeCommand] },
      timeoutSeconds: 10,
      periodSeconds: 1,
      failureThreshold: 2 ** 31 - 1,
    },
  };
  const pod = podSpec(container, tools);
  const left = deadlineMs(job, now);
  const template = overlayTemplate(spec.launcherTemplate, {
    metadata: { labels: podLabels(job, "launcher") },
    spec: {
      ...withHosts(spec.runLauncherAsWorker === true ? withData(pod, job) : pod, job, names, tools, names.launcher),
      ...(gang === undefined ? {} : { subdomain: names.hosts, hostname: names.launcher }),
    },
  });
  return {
    parallelism: 1,
    completions: 1,
    // A second mpiexec could not use the workers of the first.
    backoffLimit: 0,
    ...(left === undefined ? {} : { activeDeadlineSeconds: Math.max(Math.ceil(left / 1000), 1) }),
    template: gang === undefined ? template : inPodGroup(template, names.podGroup, gang),
  };
}

/** The Job of the workers, which join the launcher at this address or name. */
export function workersJob(
  job: JobView,
  names: ChildNames,
  launcherHost: string,
  tools: PodTools,
  gang?: GangScheduling,
): JobObject["spec"] {
  const { spec } = job;
  const host = launcherHost.includes(":") ? `[${launcherHost}]` : launcherHost;
  const container: Container = {
    ...containerOf(job, "worker", tools),
    env: [
      { name: podVariables.launcher, value: `${host}:${rendezvousPort}` },
      tokenVariable(names),
      ...indexVariables(job),
      ...attemptVariables(job, names),
    ],
  };
  const layout = layoutOf(job);
  const count = workerPodCount(layout);
  const isRhino = job.session === undefined;
  const gib =
    spec.memoryAllocationMode === "FixedTotalMemory"
      ? Math.ceil(spec.memoryAllocationSize / Math.max(count, 1))
      : spec.memoryAllocationSize;
  const template = overlayTemplate(spec.workerTemplate, {
    metadata: {
      labels: { ...podLabels(job, "worker"), ...(isRhino ? { "alibabacloud.com/eci": "true" } : {}) },
      ...(isRhino ? { annotations: { "k8s.aliyun.com/eci-use-specs": `1-${gib}Gi` } } : {}),
    },
    spec: withHosts(withData(podSpec(container, tools), job), job, names, tools),
  });
  return {
    completionMode: "Indexed",
    parallelism: count,
    completions: count,
    // No worker is replaced. With a limit for the whole Job, the first failure would delete the other workers with their logs.
    backoffLimitPerIndex: 0,
    template: gang === undefined ? template : inPodGroup(template, names.podGroup, gang),
  };
}

/** Labels of a RhinoJob's Pods of this type. */
export function podLabels(job: JobView, type: "launcher" | "worker"): Record<string, string> {
  return {
    [labels.app]: labelValue(job.metadata.name ?? ""),
    [labels.type]: type,
    [labels.uid]: job.metadata.uid ?? "",
  };
}

/** What a program needs to continue where an earlier attempt stopped. */
function attemptVariables({ spec }: JobView, { attempt, job }: ChildNames): readonly EnvVar[] {
  const { checkpoint } = spec;
  return [
    { name: programVariables.attempt, value: String(attempt) },
    ...(checkpoint === undefined
      ? []
      : [{ name: programVariables.checkpointFolder, value: posix.join(checkpoint.directory, job).replaceAll("$(", "$$$$(") }]),
  ];
}

/** Kubernetes sets the index in Pods of indexed Jobs; here it is set explicitly to the same value. */
function indexVariables({ spec }: JobView): readonly EnvVar[] {
  const fieldPath = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
  return [
    { name: podVariables.index, valueFrom: { fieldRef: { fieldPath } } },
    ...(spec.runLauncherAsWorker === true ? [{ name: podVariables.indexOffset, value: "1" }] : []),
  ];
}

/** Mounts the job's NFS volume, if it has one. */
function withData(pod: PodSpec, { spec }: JobView): PodSpec {
  if (!spec.dataServer || !spec.dataPath) return pod;
  const volume = { name: "data", nfs: { server: spec.dataServer, path: spec.dataPath } } as Volume;
  return withVolume(pod, volume, "/data");
}

/** Mounts the ConfigMap of the hosts, if the job has one, and lets the Service resolve the Pod's host name. Pods of the workers have one. */
function withHosts(pod: PodSpec, { spec, session }: JobView, names: ChildNames, tools: PodTools, hostname?: string): PodSpec {
  // The launcher of a session writes its own hostfile, and Pods that are processes need privileges to mount another one.
  if (spec.hostfile !== true || (session !== undefined && tools.kind === "local")) return pod;
  const volume: Volume = { name: "keelson-hosts", configMap: { name: names.hosts, defaultMode: 0o555 } };
  return { ...withVolume(pod, volume, hostsFolder), subdomain: names.hosts, ...(hostname === undefined ? {} : { hostname }) };
}

function withVolume(pod: PodSpec, volume: Volume, mountPath: string): PodSpec {
  const mount = { name: volume.name, mountPath };
  return {
    ...pod,
    volumes: [...(pod.volumes ?? []), volume],
    containers: pod.containers.map((each) => ({ ...each, volumeMounts: [...(each.volumeMounts ?? []), mount] })),
  };
}

function tokenVariable(names: ChildNames): EnvVar {
  return { name: podVariables.token, valueFrom: { secretKeyRef: { name: names.secret, key: tokenKey } } };
}

/** Name of the container that takes part in the job. */
export function mainContainerName({ session }: Pick<JobView, "session">, part: "launcher" | "worker"): string {
  return (session?.containerNames ?? containerNames)[part];
}

function containerOf(job: JobView, part: "launcher" | "worker", tools: PodTools): Container {
  const { image, workingDir } = job.spec;
  const { session } = job;
  return {
    name: mainContainerName(job, part),
    image: part === "worker" ? (session?.workerImage ?? image) : image,
    command: tools.kind === "local" ? [...tools.command, part] : [`${toolsFolder}/keelson-mpi`, part],
    ...(workingDir === undefined ? {} : { workingDir }),
    ...(tools.kind === "local" ? {} : { volumeMounts: [{ name: "keelson", mountPath: toolsFolder, readOnly: true }] }),
    // The last lines of the log say why it failed.
    terminationMessagePolicy: "FallbackToLogsOnError",
  };
}

function podSpec(container: Container, tools: PodTools): PodSpec {
  return {
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 10,
    ...(tools.kind === "local"
      ? {}
      : {
          initContainers: [
            {
              name: "keelson",
              image: tools.image,
              command: ["keelson", "mpi", "copy-tools", toolsFolder],
              volumeMounts: [{ name: "keelson", mountPath: toolsFolder }],
            },
          ],
          volumes: [{ name: "keelson", emptyDir: {} }],
        }),
    containers: [container],
  };
}
