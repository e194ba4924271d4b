import { draft } from "@keelson/api-machinery";
import { type EnvVar, type JobObject, Pod } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import { generatedPrefix, type NewPod, podFromTemplate } from "../workload/pod-from-template.ts";
import { isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import type { Cached, Write } from "../workload/write.ts";

/** A Job from the cache. */
export type CachedJob = Cached<JobObject>;

/** Finalizer of a Job's Pods: a Pod is kept until it has been counted (KEP-2307). */
const trackingFinalizer = "batch.kubernetes.io/job-tracking";
/** Label and annotation of a Pod of an Indexed Job. */
const completionIndexKey = "batch.kubernetes.io/job-completion-index";

/** Whether the Job assigns completion indexes. */
export function isIndexed({ spec }: CachedJob): boolean {
  return spec.completionMode === "Indexed";
}

/** The completion index of a Pod; undefined if it has none below the Job's completions. */
export function indexOf(job: CachedJob, { metadata }: CachedPod): number | undefined {
  const text = metadata.annotations?.[completionIndexKey] ?? "";
  const index = /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  return index !== undefined && index < (job.spec.completions ?? 0) ? index : undefined;
}

/** Whether the Pod waits to be counted. */
export function isTracked({ metadata }: CachedPod): boolean {
  return metadata.finalizers?.includes(trackingFinalizer) ?? false;
}

/** Whether the Pod counts as a failure. A Pod deleted before it terminated does, unless only terminated Pods are replaced. */
export function hasFailed(job: CachedJob, pod: CachedPod): boolean {
  if (pod.status?.phase === "Failed") return true;
  if (onlyReplacesEnded(job))
    return isPodTerminating(pod) && (pod.status?.phase ?? "Pending") === "Pending" && !pod.spec.nodeName;
  return isPodTerminating(pod) && pod.status?.phase !== "Succeeded";
}

/** Whether a terminating Pod is replaced only after it has terminated (`podReplacementPolicy: Failed`). */
export function onlyReplacesEnded({ spec }: CachedJob): boolean {
  const { podReplacementPolicy, podFailurePolicy } = spec as { podReplacementPolicy?: string; podFailurePolicy?: unknown };
  return podReplacementPolicy === "Failed" || (podReplacementPolicy === undefined && podFailurePolicy !== undefined);
}

/** When the Pod terminated, as far as its status shows, in milliseconds since the epoch. */
export function finishedAt({ metadata, status }: CachedPod): number {
  const ends = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])]
    .map(({ state }) => parseTime(state?.terminated?.finishedAt ?? ""))
    .filter((at) => at !== undefined);
  if (ends.length > 0) return Math.max(...ends);
  const ready = status?.conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime;
  return parseTime(ready ?? metadata.deletionTimestamp ?? metadata.creationTimestamp ?? "") ?? 0;
}

/** Builds a Pod of the Job, with this index and additional annotations for an Indexed Job. */
export function podOf(job: CachedJob, index: number | undefined, annotations: Readonly<Record<string, string>> = {}): NewPod {
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
      annotations: { ...metadata.annotations, ...annotations, [completionIndexKey]: String(index) },
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

/** The finalizers without the tracking finalizer. */
export function untracked(finalizers: readonly string[]): readonly string[] {
  return finalizers.filter((finalizer) => finalizer !== trackingFinalizer);
}

/** The finalizers with the tracking finalizer. */
export function tracked(finalizers: readonly string[]): readonly string[] {
  return [...untracked(finalizers), trackingFinalizer];
}

/** Removes the tracking finalizer of a Pod. */
export function release(object: CachedPod): Write {
  const finalizers = untracked(object.metadata.finalizers ?? []);
  return { kind: "patch", type: Pod, object, body: { metadata: { finalizers } } };
}
