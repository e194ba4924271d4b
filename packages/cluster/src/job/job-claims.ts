import { type DeepReadonly, getController } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { claim, type Claims, workloadSelector } from "../workload/ownership.ts";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Write } from "../workload/write.ts";
import { isFinished } from "./job-decision.ts";
import { type CachedJob, tracked, untracked } from "./job-pod.ts";

/** Whether the selector of a Job matches labels. */
export function isSelectedBy({ spec }: CachedJob, labels: DeepReadonly<Record<string, string>> | undefined): boolean {
  return workloadSelector(spec.selector).matches(labels);
}

/**
 * The Pods of a Job among its own and those without a controller, and the writes that adopt or release others. An adopted Pod gets the
 * tracking finalizer and is counted; a released one loses it. A Job that is finished or being deleted adopts and releases nothing, and
 * owns all its Pods whatever their labels, so that each loses its finalizer.
 */
export function claimPods(job: CachedJob, candidates: readonly CachedPod[]): Claims<PodObject> {
  const own = candidates.filter((pod) => getController(pod)?.uid === job.metadata.uid);
  const { selector } = job.spec;
  if (selector === undefined || job.metadata.deletionTimestamp !== undefined || isFinished(job))
    return { owned: own, writes: [] };
  const { owned, writes } = claim(job, workloadSelector(selector), Pod, candidates);
  return { owned, writes: writes.map((write) => withTracking(job, write)) };
}

/** Adds or removes the tracking finalizer together with the owner reference. */
function withTracking(job: CachedJob, write: Write): Write {
  if (write.kind !== "patch") return write;
  const pod = write.object as CachedPod;
  const isReleased = getController(pod)?.uid === job.metadata.uid;
  const { finalizers = [] } = pod.metadata;
  const body = write.body as { readonly metadata: object };
  return {
    ...write,
    body: { metadata: { ...body.metadata, finalizers: isReleased ? untracked(finalizers) : tracked(finalizers) } },
  };
}
