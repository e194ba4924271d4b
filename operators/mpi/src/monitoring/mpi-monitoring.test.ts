import type { Cache } from "@keelson/controller";
import { stateMetrics } from "@keelson/operator/monitoring";
import { expect, it } from "vitest";
import { mpiMonitoring } from "./mpi-monitoring.ts";

const now = Date.UTC(2030, 0, 1, 1);
const queuedAt = (time: string) => ({ queue: { name: "q", reason: "QuotaExceeded", position: 1, queuedAt: time } });
const failedAt = (completionTime: string) => ({ jobStatus: "Failed", completionTime });
const objects: Readonly<Record<string, readonly object[]>> = {
  RhinoJob: [
    { jobStatus: "Running", failures: 2 },
    failedAt("2030-01-01T00:10:00Z"),
    failedAt("2030-01-01T00:05:00Z"),
    queuedAt("2030-01-01T00:30:00Z"),
    queuedAt("2030-01-01T00:00:00Z"),
  ].map((status) => ({ kind: "RhinoJob", metadata: { namespace: "a" }, status })),
  MPIJob: [{ kind: "MPIJob", metadata: { namespace: "a" } }],
};
const cache = { list: ({ kind }: { kind: string }) => objects[kind] } as unknown as Cache;

it("counts jobs of both kinds, and those that wait for admission", () => {
  const samples = stateMetrics(mpiMonitoring.metrics ?? {}, cache, now).map(({ name, samples }) => [name, samples]);
  expect(Object.fromEntries(samples)).toEqual({
    keelson_mpi_jobs: [
      { labels: { namespace: "a", kind: "RhinoJob", status: "Running" }, value: 1 },
      { labels: { namespace: "a", kind: "RhinoJob", status: "Failed" }, value: 2 },
      { labels: { namespace: "a", kind: "RhinoJob", status: "Pending" }, value: 2 },
      { labels: { namespace: "a", kind: "MPIJob", status: "Pending" }, value: 1 },
    ],
    keelson_mpi_queued_jobs: [{ labels: { namespace: "a", queue: "q", reason: "QuotaExceeded" }, value: 2 }],
    keelson_mpi_longest_queued_seconds: [{ labels: { queue: "q" }, value: 3600 }],
    keelson_mpi_last_failure_timestamp_seconds: [{ labels: { namespace: "a" }, value: Date.UTC(2030, 0, 1, 0, 10) / 1000 }],
    keelson_mpi_failed_attempts: [{ labels: { namespace: "a" }, value: 2 }],
  });
});
