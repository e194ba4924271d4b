import type { Cache } from "@keelson/controller";
import { stateMetrics } from "@keelson/operator/monitoring";
import { expect, it } from "vitest";
import { robotsMonitoring } from "./robots-monitoring.ts";

const now = Date.UTC(2030, 0, 1, 1);
const object = (status: object, more: object = {}) => ({
  metadata: { namespace: "a", creationTimestamp: "2030-01-01T00:00:00Z" },
  ...{ spec: {}, status, ...more },
});
const objects: Readonly<Record<string, readonly object[]>> = {
  Robot: [
    object({ phase: "Online", identity: { keySha256: "a" }, agentFeatures: ["leases", "authority-1", "authority-2"] }),
    object({ phase: "Online", identity: { keySha256: "b" }, agentFeatures: ["authority-1"] }),
    object({}),
  ],
  Task: [
    object({ conditions: [{ type: "Scheduled", status: "False", lastTransitionTime: "2030-01-01T00:30:00Z" }] }),
    object({ state: "running", conditions: [{ type: "Lost", status: "True" }] }),
  ],
  Job: [object({ state: "running", rollout: { phase: "Paused" } }, { spec: { type: "service" } }), object({ state: "failed" })],
};
const cache = { list: ({ kind }: { kind: string }) => objects[kind] } as unknown as Cache;

it("counts robots, tasks and jobs by their state", () => {
  const samples = stateMetrics(robotsMonitoring.metrics ?? {}, cache, now).map(({ name, samples }) => [name, samples]);
  expect(Object.fromEntries(samples)).toEqual({
    keelson_robots_robots: [
      { labels: { namespace: "a", phase: "Online" }, value: 2 },
      { labels: { namespace: "a", phase: "Pending" }, value: 1 },
    ],
    keelson_robots_trusted_authorities: [
      { labels: { namespace: "a", authority: "1" }, value: 2 },
      { labels: { namespace: "a", authority: "2" }, value: 1 },
    ],
    keelson_robots_tasks: [
      { labels: { namespace: "a", state: "pending" }, value: 1 },
      { labels: { namespace: "a", state: "running" }, value: 1 },
    ],
    keelson_robots_lost_tasks: [{ labels: { namespace: "a" }, value: 1 }],
    keelson_robots_oldest_pending_task_seconds: [{ labels: { namespace: "a" }, value: 1800 }],
    keelson_robots_jobs: [
      { labels: { namespace: "a", type: "service", state: "running" }, value: 1 },
      { labels: { namespace: "a", type: "batch", state: "failed" }, value: 1 },
    ],
    keelson_robots_rollouts: [{ labels: { namespace: "a", phase: "Paused" }, value: 1 }],
  });
});
