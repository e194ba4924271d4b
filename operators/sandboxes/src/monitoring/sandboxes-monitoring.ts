import type { MetricSample } from "@keelson/controller/metrics";
import { ageSeconds, countBy, maxBy, type OperatorMonitoring } from "@keelson/operator/monitoring";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";

const isWaiting = (phase: string | undefined): boolean => ["Pending", "Creating"].includes(phase ?? "Pending");

/** Metrics, panels and alert rules of the sandboxes family. */
export const sandboxesMonitoring: OperatorMonitoring = {
  metrics: {
    keelson_sandboxes_sandboxes: {
      help: "Sandboxes by pool and phase",
      read: (cache) =>
        countBy(cache.list(Sandbox), ({ metadata: { namespace }, spec, status }) => ({
          ...{ namespace, pool: spec.poolRef, phase: status?.phase ?? "Pending" },
        })),
    },
    keelson_sandboxes_oldest_pending_seconds: {
      help: "Age of the oldest sandbox that has not started",
      read: (cache, now) =>
        maxBy(
          cache.list(Sandbox).filter(({ status }) => status?.firstStartTime === undefined && isWaiting(status?.phase)),
          ({ metadata: { namespace }, spec }) => ({ namespace, pool: spec.poolRef }),
          ({ metadata: { creationTimestamp } }) => ageSeconds(creationTimestamp, now),
        ),
    },
    keelson_sandboxes_agents: {
      help: "Agents of the pool; those with state ready report",
      read: (cache) =>
        cache.list(SandboxPool).flatMap(({ metadata: { namespace = "", name: pool }, status }): MetricSample[] => [
          { labels: { namespace, pool, state: "current" }, value: status?.currentPods ?? 0 },
          { labels: { namespace, pool, state: "ready" }, value: status?.readyPods ?? 0 },
          { labels: { namespace, pool, state: "busy" }, value: status?.busyAgents ?? 0 },
        ]),
    },
    keelson_sandboxes_warm_slots: {
      help: "Warm slots of the pool",
      read: (cache) =>
        cache.list(SandboxPool).flatMap(({ metadata: { namespace = "", name: pool }, status }): MetricSample[] =>
          status?.warm === undefined
            ? []
            : [
                { labels: { namespace, pool, state: "desired" }, value: status.warm.desired },
                { labels: { namespace, pool, state: "ready" }, value: status.warm.ready },
              ],
        ),
    },
  },
  panels: [
    { title: "Sandboxes", queries: [{ expr: "sum by (phase) (keelson_sandboxes_sandboxes)", legend: "{{phase}}" }] },
    {
      title: "Sandboxes by pool",
      queries: [{ expr: "sum by (namespace, pool) (keelson_sandboxes_sandboxes)", legend: "{{namespace}}/{{pool}}" }],
    },
    {
      title: "Oldest sandbox that has not started",
      unit: "s",
      queries: [{ expr: "keelson_sandboxes_oldest_pending_seconds", legend: "{{namespace}}/{{pool}}" }],
    },
    {
      title: "Agents",
      queries: [
        {
          expr: "sum by (namespace, pool, state) (keelson_sandboxes_agents)",
          legend: "{{namespace}}/{{pool}} {{state}}",
        },
      ],
    },
    {
      title: "Warm slots",
      queries: [
        {
          expr: "sum by (namespace, pool, state) (keelson_sandboxes_warm_slots)",
          legend: "{{namespace}}/{{pool}} {{state}}",
        },
      ],
    },
  ],
  alerts: [
    {
      alert: "SandboxAgentsNotReady",
      expr: 'keelson_sandboxes_agents{state="current"} - ignoring (state) keelson_sandboxes_agents{state="ready"} > 0',
      for: "5m",
      severity: "warning",
      summary: "{{ $value }} agents of the pool {{ $labels.namespace }}/{{ $labels.pool }} do not report",
      description: "See kubectl describe sandboxpool {{ $labels.pool }} -n {{ $labels.namespace }}",
    },
    {
      alert: "SandboxPoolHasNoAgents",
      expr: 'keelson_sandboxes_agents{state="ready"} == 0 and on (namespace, pool) keelson_sandboxes_oldest_pending_seconds > 60',
      for: "5m",
      severity: "critical",
      summary: "The pool {{ $labels.namespace }}/{{ $labels.pool }} cannot start sandboxes",
      description: "See kubectl describe sandboxpool {{ $labels.pool }} -n {{ $labels.namespace }}",
    },
    {
      alert: "SandboxesPending",
      expr: "keelson_sandboxes_oldest_pending_seconds > 600",
      for: "1m",
      severity: "warning",
      summary:
        "A sandbox of the pool {{ $labels.namespace }}/{{ $labels.pool }} has waited for {{ $value | humanizeDuration }}",
      description: "The pool may be full. See keelson sandbox list -n {{ $labels.namespace }}",
    },
    {
      alert: "SandboxesLost",
      expr: 'sum by (namespace, pool) (keelson_sandboxes_sandboxes{phase="Lost"}) > 0',
      severity: "warning",
      summary: "Sandboxes of the pool {{ $labels.namespace }}/{{ $labels.pool }} were lost with their agent",
    },
  ],
};
