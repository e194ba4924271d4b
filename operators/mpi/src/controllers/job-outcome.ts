import { type DeepReadonly, isConditionTrue } from "@keelson/api-machinery";
import type { JobObject, PodObject } from "@keelson/api-machinery/kinds";
import { exitCodeOf } from "./pod-trouble.ts";

/** Result of a Job. */
export type JobOutcome =
  | { readonly kind: "complete" }
  | { readonly kind: "failed"; readonly reason: string; readonly message: string; readonly at: string | undefined };

/** Result of a Job; `undefined` while it has not ended. */
export function jobOutcome(job: DeepReadonly<JobObject>): JobOutcome | undefined {
  for (const { type, status, reason, message, lastTransitionTime } of job.status?.conditions ?? []) {
    if (status !== "True") continue;
    if (type === "Complete") return { kind: "complete" };
    if (type === "Failed") return { kind: "failed", reason: reason ?? "", message: message ?? "", at: lastTransitionTime };
  }
  return undefined;
}

/**
 * Result of the launcher's Job as soon as it is certain: a Job with one Pod and no retries ends as the Pod's launcher does. The Job controller
 * records it several writes later, and waits for other containers of the Pod. A Pod that is being deleted is inconclusive: the Job controller decides whether its deletion is a failure. So is one
 * that the Job controller has not counted: any user can create a Pod with this owner.
 */
export function launcherOutcome(
  job: DeepReadonly<JobObject>,
  pods: readonly DeepReadonly<PodObject>[],
): JobOutcome | undefined {
  const outcome = jobOutcome(job);
  const isStopping = job.metadata.deletionTimestamp !== undefined || job.spec.suspend === true;
  if (outcome !== undefined || isStopping || isConditionTrue(job.status?.conditions, "FailureTarget")) return outcome;
  const { active = 0, succeeded = 0, failed = 0 } = job.status ?? {};
  if (active + succeeded + failed === 0) return undefined;
  const [pod, ...others] = pods;
  if (pod === undefined || others.length > 0 || pod.metadata.deletionTimestamp !== undefined) return undefined;
  const { phase } = pod.status ?? {};
  // A container alongside the launcher may run on.
  const exitCode = phase === "Failed" ? undefined : exitCodeOf(pod);
  if (phase === "Succeeded" || exitCode === 0) return { kind: "complete" };
  if (phase !== "Failed" && exitCode === undefined) return undefined;
  return { kind: "failed", reason: "BackoffLimitExceeded", message: `Pod ${pod.metadata.name} failed`, at: undefined };
}
