import type { DeepReadonly } from "@keelson/api-machinery";
import type { Cache } from "@keelson/controller";
import { ageSeconds, countBy, epochSeconds, maxBy, type OperatorMonitoring } from "@keelson/operator/monitoring";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";

/** Jobs of both kinds. */
function jobsOf(cache: Cache): readonly DeepReadonly<RhinoJob | MPIJob>[] {
  return [...cache.list(RhinoJob), ...cache.list(MPIJob)];
}

/** Jobs that wait for their admission. */
const isQueued = ({ status }: DeepReadonly<RhinoJob | MPIJob>): boolean => status?.queue?.position !== undefined;

/** Metrics, panels and alert rules of the MPI family. */
export const mpiMonitoring: OperatorMonitoring = {
  metrics: {
    keelson_mpi_jobs: {
      help: "Jobs by kind and status",
      read: (cache) =>
        countBy(jobsOf(cache), ({ kind, metadata: { namespace }, status }) => ({
          ...{ namespace, kind, status: status?.jobStatus ?? "Pending" },
        })),
    },
    keelson_mpi_queued_jobs: {
      help: "Jobs that wait for admission, by queue and reason",
      read: (cache) =>
        countBy(jobsOf(cache).filter(isQueued), ({ metadata: { namespace }, status }) => ({
          ...{ namespace, queue: status?.queue?.name ?? "", reason: status?.queue?.reason ?? "" },
        })),
    },
    keelson_mpi_longest_queued_seconds: {
      help: "Longest time that a job has waited for admission",
      read: (cache, now) =>
        maxBy(
          jobsOf(cache).filter(isQueued),
          ({ status }) => ({ queue: status?.queue?.name ?? "" }),
          ({ status }) => ageSeconds(status?.queue?.queuedAt, now),
        ),
    },
    keelson_mpi_last_failure_timestamp_seconds: {
      help: "Time of the last failure of an existing job",
      read: (cache) =>
        maxBy(
          jobsOf(cache).filter(({ status }) => status?.jobStatus === "Failed"),
          ({ metadata: { namespace } }) => ({ namespace }),
          ({ status }) => epochSeconds(status?.completionTime),
        ),
    },
    keelson_mpi_failed_attempts: {
      help: "Failed attempts of existing jobs",
      read: (cache) =>
        countBy(
          jobsOf(cache).flatMap((job) => Array.from({ length: job.status?.failures ?? 0 }, () => job)),
          ({ metadata: { namespace } }) => ({ namespace }),
        ),
    },
  },
  panels: [
    { title: "Jobs", queries: [{ expr: "sum by (status) (keelson_mpi_jobs)", legend: "{{status}}" }] },
    {
      title: "Queued jobs",
      queries: [{ expr: "sum by (queue, reason) (keelson_mpi_queued_jobs)", legend: "{{queue}} {{reason}}" }],
    },
    {
      title: "Longest wait for admission",
      unit: "s",
      queries: [{ expr: "max by (queue) (keelson_mpi_longest_queued_seconds)", legend: "{{queue}}" }],
    },
    {
      title: "Time since the last failure",
      unit: "s",
      queries: [{ expr: "time() - keelson_mpi_last_failure_timestamp_seconds", legend: "{{namespace}}" }],
    },
    {
      title: "Failed attempts",
      queries: [{ expr: "sum by (namespace) (keelson_mpi_failed_attempts)", legend: "{{namespace}}" }],
    },
  ],
  alerts: [
    {
      alert: "MpiJobsFailed",
      expr: "time() - keelson_mpi_last_failure_timestamp_seconds < 900",
      severity: "warning",
      summary: "MPI jobs in {{ $labels.namespace }} failed",
      description: "Find the cause with: keelson mpi list -n {{ $labels.namespace }}, then keelson mpi explain NAME",
    },
    {
      alert: "MpiImageErrors",
      expr: 'sum by (namespace) (keelson_mpi_jobs{status="ImageError"}) > 0',
      for: "5m",
      severity: "warning",
      summary: "Images of MPI jobs in {{ $labels.namespace }} cannot be pulled",
    },
    {
      alert: "MpiQueueStuck",
      expr: "keelson_mpi_longest_queued_seconds > 3600",
      for: "5m",
      severity: "warning",
      summary: "A job in the queue {{ $labels.queue }} has waited for {{ $value | humanizeDuration }}",
      description: "Find the cause with: keelson mpi queue",
    },
  ],
};
