import type { DeepReadonly } from "@keelson/api-machinery";
import type { ConfigMapObject, PodObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { labels } from "../api/names.ts";
import type { JobView } from "../controllers/job-view.ts";
import { type Layout, ranksOfHosts } from "../launch/launcher/host-layout.ts";
import type { ChildNames } from "./child-names.ts";

/** Directory in which Pods find `hostfile` and `discover_hosts.sh`. */
export const hostsFolder = "/etc/mpi";

/** How the ranks of a RhinoJob are spread over its Pods. */
export function layoutOf({ spec }: Pick<JobView, "spec">): Layout {
  const { parallelism: ranks, slotsPerWorker = 1, runLauncherAsWorker = false } = spec;
  return {
    ranks,
    ...(slotsPerWorker === 1 ? {} : { slots: slotsPerWorker }),
    ...(runLauncherAsWorker ? { launcherIsWorker: true } : {}),
  };
}

/** Host names of the job's hosts, by index. They are resolved by the headless Service. */
export function hostNames(job: JobView, names: ChildNames): readonly string[] {
  const layout = layoutOf(job);
  const offset = layout.launcherIsWorker === true ? 1 : 0;
  return ranksOfHosts(layout).map((_, host) => {
    const name = host < offset ? names.launcher : `${names.workers}-${host - offset}`;
    return `${name}.${names.hosts}.${job.metadata.namespace ?? "default"}.svc`;
  });
}

/** Name of the launcher's Pod, which the headless Service resolves. */
export function launcherHostName(job: JobView, names: ChildNames): string {
  return `${names.launcher}.${names.hosts}.${job.metadata.namespace ?? "default"}.svc`;
}

/** The headless Service that resolves the host names of the job's Pods, even before they are ready. */
export function hostsService(job: JobView): NonNullable<ServiceObject["spec"]> {
  return {
    clusterIP: "None",
    publishNotReadyAddresses: true,
    selector: { [labels.uid]: job.metadata.uid ?? "" },
  };
}

/**
 * The files of the hosts' ConfigMap: `hostfile` has every host in the format of the MPI, and `discover_hosts.sh` prints those that are
 * running, as Elastic Horovod expects it.
 */
export function hostsData(
  job: JobView,
  names: ChildNames,
  workerPods: readonly DeepReadonly<PodObject>[],
): NonNullable<ConfigMapObject["data"]> {
  const layout = layoutOf(job);
  const ranks = ranksOfHosts(layout);
  const hosts = hostNames(job, names);
  const line = (host: string, index: number): string =>
    job.spec.mpiImplementation === "MPICH" ? `${host}:${ranks[index]}` : `${host} slots=${ranks[index]}`;
  const offset = layout.launcherIsWorker === true ? 1 : 0;
  const running = workerPods
    .filter(({ status }) => status?.phase === "Running")
    .map(({ metadata }) => Number(metadata.annotations?.["batch.kubernetes.io/job-completion-index"]) + offset);
  const found = hosts.filter((_, index) => index < offset || running.includes(index));
  return {
    hostfile: hosts.map((host, index) => `${line(host, index)}\n`).join(""),
    "discover_hosts.sh": `#!/bin/sh\n${found.map((host) => `echo ${host}:${ranks[hosts.indexOf(host)]}\n`).join("")}`,
  };
}
