import { findCondition, isConditionTrue } from "@keelson/api-machinery";
import { ageSeconds, countBy, maxBy, type OperatorMonitoring } from "@keelson/operator/monitoring";
import { Job } from "../api/job.ts";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { authoritiesOf } from "../identity/authority/trusting-robots.ts";

/** Metrics, panels and alert rules of the robots family. */
export const robotsMonitoring: OperatorMonitoring = {
  metrics: {
    keelson_robots_robots: {
      help: "Robots by phase",
      read: (cache) =>
        countBy(cache.list(Robot), ({ metadata: { namespace }, status }) => ({ namespace, phase: status?.phase ?? "Pending" })),
    },
    keelson_robots_trusted_authorities: {
      help: "Robots with keys, by certificate authority that they trust",
      read: (cache) =>
        countBy(
          cache.list(Robot).flatMap((robot) => authoritiesOf(robot).map((id) => ({ robot, id }))),
          ({ robot: { metadata }, id }) => ({ namespace: metadata.namespace, authority: id }),
        ),
    },
    keelson_robots_tasks: {
      help: "Tasks by state",
      read: (cache) =>
        countBy(cache.list(Task), ({ metadata: { namespace }, status }) => ({ namespace, state: status?.state ?? "pending" })),
    },
    keelson_robots_lost_tasks: {
      help: "Tasks whose state is unknown because their robot has stopped reporting",
      read: (cache) =>
        countBy(
          cache.list(Task).filter(({ status }) => isConditionTrue(status?.conditions, "Lost")),
          ({ metadata: { namespace } }) => ({ namespace }),
        ),
    },
    keelson_robots_oldest_pending_task_seconds: {
      help: "Longest time that a task waits for a robot, or for its program to start",
      read: (cache, now) =>
        maxBy(
          cache.list(Task).filter(({ status }) => (status?.state ?? "pending") === "pending"),
          ({ metadata: { namespace } }) => ({ namespace }),
          ({ metadata: { creationTimestamp }, status }) =>
            ageSeconds(findCondition(status?.conditions, "Scheduled")?.lastTransitionTime ?? creationTimestamp, now),
        ),
    },
    keelson_robots_jobs: {
      help: "Jobs by type and state",
      read: (cache) =>
        countBy(cache.list(Job), ({ metadata: { namespace }, spec, status }) => ({
          ...{ namespace, type: spec.type ?? "batch", state: status?.state ?? "pending" },
        })),
    },
    keelson_robots_rollouts: {
      help: "Jobs with a rollout, by its phase",
      read: (cache) =>
        countBy(
          cache.list(Job).filter(({ status }) => status?.rollout !== undefined),
          ({ metadata: { namespace }, status }) => ({ namespace, phase: status?.rollout?.phase ?? "" }),
        ),
    },
  },
  panels: [
    { title: "Robots", queries: [{ expr: "sum by (phase) (keelson_robots_robots)", legend: "{{phase}}" }] },
    { title: "Tasks", queries: [{ expr: "sum by (state) (keelson_robots_tasks)", legend: "{{state}}" }] },
    {
      title: "Lost tasks",
      queries: [{ expr: "sum by (namespace) (keelson_robots_lost_tasks)", legend: "{{namespace}}" }],
    },
    {
      title: "Oldest pending task",
      unit: "s",
      queries: [{ expr: "max by (namespace) (keelson_robots_oldest_pending_task_seconds)", legend: "{{namespace}}" }],
    },
    { title: "Jobs", queries: [{ expr: "sum by (type, state) (keelson_robots_jobs)", legend: "{{type}} {{state}}" }] },
    {
      title: "Robots by trusted authority",
      queries: [{ expr: "sum by (authority) (keelson_robots_trusted_authorities)", legend: "{{authority}}" }],
    },
    { title: "Rollouts", queries: [{ expr: "sum by (phase) (keelson_robots_rollouts)", legend: "{{phase}}" }] },
  ],
  alerts: [
    {
      alert: "RobotsOffline",
      expr: 'sum by (namespace) (keelson_robots_robots{phase="Offline"}) / sum by (namespace) (keelson_robots_robots) > 0.2',
      for: "10m",
      severity: "warning",
      summary: "{{ $value | humanizePercentage }} of the robots in {{ $labels.namespace }} are offline",
      description: "See keelson robots list -n {{ $labels.namespace }}",
    },
    {
      alert: "RobotTasksLost",
      expr: "keelson_robots_lost_tasks > 0",
      for: "10m",
      severity: "warning",
      summary: "{{ $value }} tasks in {{ $labels.namespace }} run on robots that do not report",
      description: "Their Jobs have no disconnect policy that moves them, or no other robot matches",
    },
    {
      alert: "RobotTasksPending",
      expr: "keelson_robots_oldest_pending_task_seconds > 900",
      for: "5m",
      severity: "warning",
      summary: "A task in {{ $labels.namespace }} has waited for {{ $value | humanizeDuration }}",
      description: "Find the cause with: keelson robots explain TASK -n {{ $labels.namespace }}",
    },
  ],
};
