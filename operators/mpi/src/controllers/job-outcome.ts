import type { DeepReadonly } from "@keelson/api-machinery";
import type { JobObject } from "@keelson/api-machinery/kinds";

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
