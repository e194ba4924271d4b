import type { JobView } from "../controllers/job-view.ts";
import { isManagedElsewhere, isRestarting, isSuspended, nextAttemptAt } from "../controllers/run-policy.ts";
import { defaultQueueName } from "../api/mpi-queue.ts";

/** Label of jobs that Kueue admits, with the name of its LocalQueue. */
const kueueLabel = "kueue.x-k8s.io/queue-name";

/** Whether Kueue admits the job: it suspends the job at its creation, and resumes it. */
export function isAdmittedByKueue({ metadata }: Pick<JobView, "metadata">): boolean {
  return (metadata.labels?.[kueueLabel] ?? "") !== "";
}

/** Name of the queue that admits the job. */
export function queueOf({ spec }: Pick<JobView, "spec">): string {
  return spec.runPolicy?.schedulingPolicy?.queue || defaultQueueName;
}

/** What a job needs of its queue. */
export type AdmissionNeed =
  /** Nothing: it has ended, is suspended or being deleted, or another system admits it. */
  | { readonly kind: "none" }
  /** The admission of an attempt, from `readyAt`, in milliseconds since the epoch. */
  | { readonly kind: "waiting"; readonly attempt: number; readonly readyAt: number }
  /** What it was admitted with: the attempt runs, or will start. */
  | { readonly kind: "running"; readonly attempt: number };

/** What a job needs of its queue, from its spec and status. */
export function admissionNeed(job: JobView): AdmissionNeed {
  const { jobStatus, startTime } = job.status ?? {};
  if (job.metadata.deletionTimestamp !== undefined || isManagedElsewhere(job) || isAdmittedByKueue(job))
    return { kind: "none" };
  if (jobStatus === "Completed" || jobStatus === "Failed" || job.spec.runPolicy?.suspend === true) return { kind: "none" };
  const attempt = wantedAttempt(job);
  const isBetweenAttempts = isRestarting(job) || isSuspended(job);
  if (isAdmitted(job, attempt) || (startTime !== undefined && !isBetweenAttempts)) return { kind: "running", attempt };
  return { kind: "waiting", attempt, readyAt: isRestarting(job) ? nextAttemptAt(job) : 0 };
}

/** Number of the attempt that runs or comes next. */
export function wantedAttempt(job: JobView): number {
  const { attempt } = job.status ?? {};
  return isRestarting(job) || isSuspended(job) ? (attempt ?? 0) + 1 : (attempt ?? 1);
}

/** Whether the queue has admitted this attempt. */
export function isAdmitted({ status }: JobView, attempt: number): boolean {
  return status?.queue?.admittedAttempt === attempt;
}
