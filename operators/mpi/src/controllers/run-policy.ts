import { type DeepReadonly, findCondition, isConditionTrue } from "@keelson/api-machinery";
import { cancelAnnotation } from "../api/names.ts";
import type { RhinoJob } from "../api/rhino-job.ts";

/** Reserved value of `managedBy` for the controller that serves MPI jobs. Any other value leaves the job to another controller. */
const ownManager = "kubeflow.org/mpi-operator";

const firstBackoffMs = 10_000;
const maxBackoffMs = 6 * 60_000;

/** Whether another controller, such as Kueue's for several clusters, runs the job. */
export function isManagedElsewhere({ spec }: DeepReadonly<RhinoJob>): boolean {
  const manager = spec.runPolicy?.managedBy;
  return manager !== undefined && manager !== ownManager;
}

/** Whether a user has cancelled the job. */
export function isCancelled({ metadata }: Pick<DeepReadonly<RhinoJob>, "metadata">): boolean {
  return metadata.annotations?.[cancelAnnotation] === "true";
}

/** Time from the end of a job until it is deleted; undefined if it is kept. */
export function ttlMs({ spec }: DeepReadonly<RhinoJob>): number | undefined {
  const after = spec.runPolicy?.ttlSecondsAfterFinished;
  if (after !== undefined) return after * 1000;
  return spec.ttl === 0 ? undefined : spec.ttl * 1000;
}

/** Time until the job must have ended, from its `startTime`, over all attempts; undefined without a limit. */
export function deadlineMs({ spec, status }: DeepReadonly<RhinoJob>, now: number): number | undefined {
  const seconds = spec.runPolicy?.activeDeadlineSeconds ?? spec.activeDeadlineSeconds;
  if (seconds === undefined) return undefined;
  const start = Date.parse(status?.startTime ?? "");
  return seconds * 1000 - (Number.isNaN(start) ? 0 : now - start);
}

/** Whether a failure ends the job or, by `backoffLimit`, leads to another attempt. A retry cannot help some of them. */
export function isRetried({ spec, status }: DeepReadonly<RhinoJob>, reason: string): boolean {
  if (["NameTaken", "Refused", "DeadlineExceeded", "Cancelled"].includes(reason)) return false;
  return (status?.failures ?? 0) < (spec.runPolicy?.backoffLimit ?? 0);
}

/** When the next attempt may start, in milliseconds since the epoch: 10 s after the first failure, and then twice as long each time. */
export function nextAttemptAt({ status }: DeepReadonly<RhinoJob>): number {
  const failedAt = Date.parse(findCondition(status?.conditions, "Restarting")?.lastTransitionTime ?? "");
  return failedAt + Math.min(firstBackoffMs * 2 ** ((status?.failures ?? 1) - 1), maxBackoffMs);
}

/** Whether an attempt has failed and the next one has not started. */
export function isRestarting({ status }: DeepReadonly<RhinoJob>): boolean {
  return isConditionTrue(status?.conditions, "Restarting");
}

/** Whether the job was stopped, or never started, because of `suspend`. */
export function isSuspended({ status }: DeepReadonly<RhinoJob>): boolean {
  return isConditionTrue(status?.conditions, "Suspended");
}
