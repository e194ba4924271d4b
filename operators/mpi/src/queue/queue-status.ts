import type { Amounts } from "@keelson/api-machinery/scheduling";
import { formatQuantity } from "@keelson/api-machinery/quantity";
import type { MPIQueue, QueueStatus } from "../api/mpi-queue.ts";
import type { JobView } from "../controllers/job-view.ts";
import { admissionNeed, queueOf, wantedAttempt } from "./admission-need.ts";
import type { Verdict } from "./admission-plan.ts";

/** Status of a job after a verdict about it. */
export function statusOfVerdict(job: JobView, verdict: Verdict, now: number): QueueStatus {
  const before = job.status?.queue;
  const time = new Date(now).toISOString();
  const name = queueOf(job);
  // Milliseconds keep the order of jobs that were created within one second.
  const queuedAt = before?.reason === undefined ? time : (before.queuedAt ?? time);
  if (verdict.kind === "admitted")
    return {
      name,
      ...(before?.reason === undefined ? {} : { queuedAt }),
      admittedAttempt: wantedAttempt(job),
      admittedAt: time,
    };
  const { reason, message } = verdict;
  return { name, ...(verdict.kind === "waiting" ? { position: verdict.position } : {}), reason, message, queuedAt };
}

/**
 * Status of a job that no verdict was about: without a position, and without an admission unless the attempt runs or was the last one.
 * Undefined if it has none.
 */
export function statusWithoutVerdict(job: JobView): QueueStatus | undefined {
  const before = job.status?.queue;
  if (before === undefined) return undefined;
  const { name, queuedAt, admittedAttempt, admittedAt } = before;
  const need = admissionNeed(job);
  const isOver = job.status?.jobStatus === "Completed" || job.status?.jobStatus === "Failed";
  const keepsAdmission =
    admittedAttempt !== undefined && (isOver || (need.kind === "running" && need.attempt === admittedAttempt));
  return {
    name,
    ...(keepsAdmission
      ? {
          admittedAttempt,
          ...(queuedAt === undefined ? {} : { queuedAt }),
          ...(admittedAt === undefined ? {} : { admittedAt }),
        }
      : {}),
  };
}

/** Whether two statuses differ in more than the position and the details, which may be late. */
export function differsInReason(a: QueueStatus | undefined, b: QueueStatus | undefined): boolean {
  return (
    a?.name !== b?.name ||
    a?.reason !== b?.reason ||
    a?.admittedAttempt !== b?.admittedAttempt ||
    (a?.position === undefined) !== (b?.position === undefined)
  );
}

/** Status of an MPIQueue. */
export function queueUse(
  { metadata }: { readonly metadata: { readonly generation?: number } },
  { pending, admitted, used }: { readonly pending: number; readonly admitted: number; readonly used: Amounts },
): NonNullable<MPIQueue["status"]> {
  const format = (resource: string, nanos: bigint): string =>
    formatQuantity({ nanos, format: resource === "memory" ? "BinarySI" : "DecimalSI" });
  const amounts = [...used].filter(([, amount]) => amount > 0n).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    pending,
    admitted,
    used: Object.fromEntries(amounts.map(([resource, amount]) => [resource, format(resource, amount)])),
    ...(metadata.generation === undefined ? {} : { observedGeneration: metadata.generation }),
  };
}
