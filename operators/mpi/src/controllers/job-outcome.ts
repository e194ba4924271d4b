import type { DeepReadonly } from "@keelson/api-machinery";
import type { JobObject } from "@keelson/api-machinery/kinds";

/** How a Job has ended. */
export type JobOutcome =
  | { readonly kind: "complete" }
  | { readonly kind: "failed"; readonly reason: string; readonly message: string; readonly at: string | undefined };

/** How a Job has ended; `undefined` while it has not. */
export function jobOutcome(job: DeepReadonly<JobObject>): JobOutcome | undefined {
  for (const { type, status, reason, message, lastTransitionTime } of job.status?.conditions ?? []) {
    if (status !== "True") continue;
    if (type === "Complete") return { kind: "complete" };
    if (type === "Failed") return { kind: "failed", reason: reason ?? "", message: message ?? "", at: lastTransitionTime };
  }
  return undefined;
}
