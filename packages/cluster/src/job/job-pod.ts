import { draft } from "@keelson/api-machinery";
import type { EnvVar, JobObject } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import { generatedPrefix, type NewPod, podFromTemplate } from "../workload/pod-from-template.ts";
import { isPodTerminating, type SeenPod } from "../workload/pod-state.ts";
import type { Seen } from "../workload/write.ts";

/** A Job as it is read. */
export type SeenJob = Seen<JobObject>;

/** Finalizer of a Job's Pods: a Pod stays until it has been counted (KEP-2307). */
export const trackingFinalizer = "batch.kubernetes.io/job-tracking";
/** Label and annotation of a Pod of an Indexed Job. */
export const completionIndexKey = "batch.kubernetes.io/job-completion-index";

/** Whether the Job numbers its Pods. */
export function isIndexed({ spec }: SeenJob): boolean {
  return spec.completionMode === "Indexed";
}

/** The index of a Pod; undefined where it has none below the Job's completions. */
export function indexOf(job: SeenJob, { metadata }: SeenPod): number | undefined {
  const text = metadata.annotations?.[completionIndexKey] ?? "";
  const index = /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  return index !== undefined && index < (job.spec.completions ?? 0) ? index : undefined;
}

/** Whether the Pod waits to be counted. */
export function isTracked({ metadata }: SeenPod): boolean {
  return metadata.finalizers?.includes(trackingFinalizer) ?? false;
}

/** Whether the Pod is over and a failure: one that is deleted before its end counts as such, unless only ended ones do. */
export function hasFailed(job: SeenJob, pod: SeenPod): boolean {
  if (pod.status?.phase === "Failed") return true;
  if (onlyReplacesEnded(job))
    return isPodTerminating(pod) && (pod.status?.phase ?? "Pending") === "Pending" && !pod.spec.nodeName;
  return isPodTerminating(pod) && pod.status?.phase !== "Succeeded";
}

/** Whether a Pod that is being deleted is replaced only when it has ended (`podReplacementPolicy: Failed`). */
export function onlyReplacesEnded({ spec }: SeenJob): boolean {
  const { podReplacementPolicy, podFailurePolicy } = spec as { podReplacementPolicy?: string; podFailurePolicy?: unknown };
  return podReplacementPolicy === "Failed" || (podReplacementPolicy === undefined && podFailurePolicy !== undefined);
}

/** When the Pod ended, as well as its status tells, in milliseconds from the epoch. */
export function finishedAt({ metadata, status }: SeenPod): number {
  const ends = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])]
    .map(({ state }) => parseTime(state?.terminated?.finishedAt ?? ""))
    .filter((at) => at !== undefined);
  if (ends.length > 0) return Math.max(...ends);
  const ready = status?.conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime;
  return parseTime(ready ?? metadata.deletionTimestamp ?? metadata.creationTimestamp ?? "") ?? 0;
}

/** A Pod of the Job, of this index where it is an Indexed one. */
export function podOf(job: SeenJob, index: number | undefined): NewPod {
  const pod = podFromTemplate(job, job.spec.template);
  const { name = "", uid = "" } = job.metadata;
  const labels: Record<string, string> = {
    ...pod.metadata.labels,
    "batch.kubernetes.io/controller-uid": uid,
    "batch.kubernetes.io/job-name": name,
    "controller-uid": uid,
    "job-name": name,
  };
  const metadata = { ...pod.metadata, labels, finalizers: [trackingFinalizer] };
  if (index === undefined) return { ...pod, metadata };
  const suffix = `-${index}`;
  const env = (present: readonly EnvVar[] | undefined): EnvVar[] =>
    present?.some((variable) => variable.name === "JOB_COMPLETION_INDEX")
      ? draft(present as EnvVar[])
      : [
          ...draft((present ?? []) as EnvVar[]),
          { name: "JOB_COMPLETION_INDEX", valueFrom: { fieldRef: { fieldPath: `metadata.labels['${completionIndexKey}']` } } },
        ];
  return {
    metadata: {
      ...metadata,
      generateName: generatedPrefix(`${name.slice(0, 57 - suffix.length)}${suffix}`),
      labels: { ...labels, [completionIndexKey]: String(index) },
      annotations: { ...metadata.annotations, [completionIndexKey]: String(index) },
    },
    spec: {
      ...pod.spec,
      hostname: `${name.slice(0, 63 - suffix.length)}${suffix}`,
      containers: pod.spec.containers.map((container) => ({ ...container, env: env(container.env) })),
      ...(pod.spec.initContainers
        ? { initContainers: pod.spec.initContainers.map((container) => ({ ...container, env: env(container.env) })) }
        : {}),
    },
  };
}
