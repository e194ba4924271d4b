import type { DeepReadonly } from "@keelson/api-machinery";
import type { Container, EnvVar, JobObject, PodSpec, Volume } from "@keelson/api-machinery/kinds";
import { containerNames, labels, tokenKey } from "../api/names.ts";
import type { RhinoJob } from "../api/rhino-job.ts";
import { formatOrder, podVariables, rendezvousPort } from "../launch/pod-environment.ts";
import { readyPipeVariable, readyProbeCommand } from "../launch/ready-signal.ts";
import { type ChildNames, labelValue } from "./child-names.ts";
import { overlayTemplate } from "./pod-template.ts";

/** How Pods get the launcher and worker programs. */
export type PodTools =
  /** Pods are processes on the operator's machine, started with this command. */
  | { readonly kind: "local"; readonly command: readonly string[] }
  /** Pods are containers. An init container with this Keelson image copies the programs into the Pod. */
  | { readonly kind: "image"; readonly image: string };

const toolsFolder = "/keelson";

/** The Job that runs mpiexec. */
export function launcherJob(job: DeepReadonly<RhinoJob>, names: ChildNames, tools: PodTools): JobObject["spec"] {
  const { spec } = job;
  const order = formatOrder({
    implementation: spec.mpiImplementation,
    ranks: spec.parallelism,
    command: [spec.appExec, ...(spec.appArgs ?? [])],
    ...(spec.startDeadlineSeconds === undefined ? {} : { startDeadlineMs: spec.startDeadlineSeconds * 1000 }),
    ...(spec.stdin === true ? { stdin: true } : {}),
  });
  const container: Container = {
    ...containerOf(job, "launcher", tools),
    env: [
      { name: podVariables.order, value: order },
      tokenVariable(names),
      { name: readyPipeVariable, value: `keelson-mpi-${job.metadata.uid ?? ""}` },
      { name: podVariables.podIP, valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
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
  return {
    parallelism: 1,
    completions: 1,
    // A second mpiexec could not use the workers of the first.
    backoffLimit: 0,
    ...(spec.activeDeadlineSeconds === undefined ? {} : { activeDeadlineSeconds: spec.activeDeadlineSeconds }),
    template: overlayTemplate(spec.launcherTemplate, {
      metadata: { labels: podLabels(job, "launcher") },
      spec: podSpec(container, tools),
    }),
  };
}

/** The Job of the workers, one Pod per rank, which join the launcher at this address. */
export function workersJob(
  job: DeepReadonly<RhinoJob>,
  names: ChildNames,
  launcherIP: string,
  tools: PodTools,
): JobObject["spec"] {
  const { spec } = job;
  const host = launcherIP.includes(":") ? `[${launcherIP}]` : launcherIP;
  const container: Container = {
    ...containerOf(job, "worker", tools),
    env: [{ name: podVariables.launcher, value: `${host}:${rendezvousPort}` }, tokenVariable(names), indexVariable],
  };
  const hasData = Boolean(spec.dataServer) && Boolean(spec.dataPath);
  if (hasData) container.volumeMounts = [...(container.volumeMounts ?? []), { name: "data", mountPath: "/data" }];
  const data = { name: "data", nfs: { server: spec.dataServer ?? "", path: spec.dataPath ?? "" } } as Volume;
  const gib =
    spec.memoryAllocationMode === "FixedTotalMemory"
      ? Math.ceil(spec.memoryAllocationSize / spec.parallelism)
      : spec.memoryAllocationSize;
  const base = podSpec(container, tools);
  return {
    completionMode: "Indexed",
    parallelism: spec.parallelism,
    completions: spec.parallelism,
    // No worker is replaced. With a limit for the whole Job, the first failure would delete the other workers with their logs.
    backoffLimitPerIndex: 0,
    template: overlayTemplate(spec.workerTemplate, {
      metadata: {
        labels: { ...podLabels(job, "worker"), "alibabacloud.com/eci": "true" },
        annotations: { "k8s.aliyun.com/eci-use-specs": `1-${gib}Gi` },
      },
      spec: hasData ? { ...base, volumes: [...(base.volumes ?? []), data] } : base,
    }),
  };
}

/** Labels of a RhinoJob's Pods of this type. */
export function podLabels(job: DeepReadonly<RhinoJob>, type: "launcher" | "worker"): Record<string, string> {
  return {
    [labels.app]: labelValue(job.metadata.name ?? ""),
    [labels.type]: type,
    [labels.uid]: job.metadata.uid ?? "",
  };
}

/** Kubernetes sets it in Pods of indexed Jobs; here it is set explicitly to the same value. */
const indexVariable: EnvVar = {
  name: podVariables.index,
  valueFrom: { fieldRef: { fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']" } },
};

function tokenVariable(names: ChildNames): EnvVar {
  return { name: podVariables.token, valueFrom: { secretKeyRef: { name: names.secret, key: tokenKey } } };
}

function containerOf(job: DeepReadonly<RhinoJob>, part: "launcher" | "worker", tools: PodTools): Container {
  const { image, workingDir } = job.spec;
  return {
    name: containerNames[part],
    image,
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
