import type { DeepReadonly } from "@keelson/api-machinery";
import type { JobObject, PodObject } from "@keelson/api-machinery/kinds";
import { jobOutcome } from "./job-outcome.ts";

/** Whether a worker has failed. Its Job fails only when all workers have ended. */
export function hasFailedWorker(workers: DeepReadonly<JobObject>, pods: readonly DeepReadonly<PodObject>[]): boolean {
  const { failedIndexes = "" } = workers.status ?? {};
  return (
    jobOutcome(workers)?.kind === "failed" || failedIndexes !== "" || pods.some(({ status }) => status?.phase === "Failed")
  );
}

/** When the first worker failed, in milliseconds since the epoch; NaN if that is unknown, as for a deleted Pod. */
export function workerFailureTime(workers: DeepReadonly<JobObject>, pods: readonly DeepReadonly<PodObject>[]): number {
  const outcome = jobOutcome(workers);
  const times = pods.flatMap(({ status }) =>
    status?.phase === "Failed"
      ? (status.containerStatuses ?? []).map(({ state }) => Date.parse(state?.terminated?.finishedAt ?? ""))
      : [],
  );
  const known = [...times, Date.parse(outcome?.kind === "failed" ? (outcome.at ?? "") : "")].filter(
    (time) => !Number.isNaN(time),
  );
  return known.length === 0 ? Number.NaN : Math.min(...known);
}
