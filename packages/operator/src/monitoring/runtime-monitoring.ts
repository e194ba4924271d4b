import type { Operator } from "../operator.ts";
import { leaseNameOf } from "../runtime-rules.ts";
import type { AlertRule, DashboardPanel } from "./operator-monitoring.ts";

type Named = Pick<Operator, "name">;

/** Name of an operator's objects in a cluster, and so the `job` label of its metrics. */
const jobOf = ({ name }: Named): string => `keelson-${name}`;

/** The panels that every operator's dashboard ends with: its controllers, its API requests and its process. */
export function runtimePanels(operator: Named): readonly DashboardPanel[] {
  const job = `job="${jobOf(operator)}"`;
  return [
    ...controllerPanels(`controller=~"${operator.name}-.*"`),
    ...requestPanels(job),
    {
      title: "Leader",
      queries: [{ expr: `leader_election_master_status{name="${leaseNameOf(operator)}"}`, legend: "{{pod}}" }],
    },
    ...processPanels(job),
  ];
}

/** The 99th percentile of a histogram over 5 minutes. */
const quantile = (metric: string, labels: string, by: string): string =>
  `histogram_quantile(0.99, sum by (le, ${by}) (rate(${metric}_bucket{${labels}}[5m])))`;

function controllerPanels(own: string): readonly DashboardPanel[] {
  return [
    {
      title: "Reconciles",
      unit: "ops",
      queries: [
        {
          expr: `sum by (controller, result) (rate(controller_runtime_reconcile_total{${own}}[5m]))`,
          legend: "{{controller}} {{result}}",
        },
      ],
    },
    {
      title: "Duration of reconciles (p99)",
      unit: "s",
      queries: [{ expr: quantile("controller_runtime_reconcile_time_seconds", own, "controller"), legend: "{{controller}}" }],
    },
    {
      title: "Queue depth",
      queries: [{ expr: `sum by (controller) (workqueue_depth{${own}})`, legend: "{{controller}}" }],
    },
    {
      title: "Time in queue (p99)",
      unit: "s",
      queries: [{ expr: quantile("workqueue_queue_duration_seconds", own, "controller"), legend: "{{controller}}" }],
    },
  ];
}

function requestPanels(job: string): readonly DashboardPanel[] {
  return [
    {
      title: "API requests",
      unit: "ops",
      queries: [
        { expr: `sum by (method, code) (rate(rest_client_requests_total{${job}}[5m]))`, legend: "{{method}} {{code}}" },
      ],
    },
    {
      title: "Duration of API requests (p99)",
      unit: "s",
      queries: [{ expr: quantile("rest_client_request_duration_seconds", job, "verb"), legend: "{{verb}}" }],
    },
    {
      title: "Cache staleness",
      unit: "s",
      queries: [{ expr: `max by (kind) (keelson_cache_staleness_seconds{${job}})`, legend: "{{kind}}" }],
    },
    { title: "Cached objects", queries: [{ expr: `max by (kind) (keelson_cache_objects{${job}})`, legend: "{{kind}}" }] },
  ];
}

function processPanels(job: string): readonly DashboardPanel[] {
  return [
    {
      title: "Event loop lag (p99)",
      unit: "s",
      queries: [{ expr: `nodejs_eventloop_lag_p99_seconds{${job}}`, legend: "{{pod}}" }],
    },
    {
      title: "Memory",
      unit: "bytes",
      queries: [{ expr: `process_resident_memory_bytes{${job}}`, legend: "{{pod}}" }],
    },
    {
      title: "CPU time",
      unit: "percentunit",
      queries: [{ expr: `rate(process_cpu_seconds_total{${job}}[5m])`, legend: "{{pod}}" }],
    },
  ];
}

/** The alert rules of every operator. `prefix` is the start of their names: `Robots`. */
export function runtimeAlerts(operator: Named, prefix: string): readonly AlertRule[] {
  const own = `controller=~"${operator.name}-.*"`;
  const job = `job="${jobOf(operator)}"`;
  const events = `See kubectl logs -l app.kubernetes.io/component=${operator.name} -n {{ $labels.namespace }}`;
  return [
    {
      alert: `${prefix}OperatorHasNoLeader`,
      expr: `absent(leader_election_master_status{name="${leaseNameOf(operator)}"} == 1)`,
      for: "2m",
      severity: "critical",
      summary: `No replica of the operator ${operator.name} leads, or none is scraped`,
      description: `Find the cause with: kubectl get pods -A -l app.kubernetes.io/component=${operator.name}`,
    },
    {
      alert: `${prefix}ReconcileErrors`,
      expr: `sum by (controller) (rate(controller_runtime_reconcile_errors_total{${own}}[15m])) > 0.1`,
      for: "15m",
      severity: "warning",
      summary: "Reconciles of {{ $labels.controller }} keep failing",
      description: "See /debug/reconciles?controller={{ $labels.controller }} of the operator",
    },
    {
      alert: `${prefix}ReconcilePanics`,
      expr: `sum by (controller) (increase(controller_runtime_reconcile_panics_total{${own}}[15m])) > 0`,
      severity: "warning",
      summary: "A reconcile of {{ $labels.controller }} failed because of a bug",
      description: "Report it with: keelson bug-report",
    },
    {
      alert: `${prefix}ReconcileStuck`,
      expr: `max by (controller) (workqueue_longest_running_processor_seconds{${own}}) > 300`,
      for: "5m",
      severity: "warning",
      summary: "A reconcile of {{ $labels.controller }} has run for {{ $value | humanizeDuration }}",
      description: "See /debug/reconciles?controller={{ $labels.controller }} of the operator",
    },
    {
      alert: `${prefix}CacheStale`,
      expr: `max by (namespace, kind) (keelson_cache_staleness_seconds{${job}}) > 300`,
      for: "5m",
      severity: "warning",
      summary: `The operator ${operator.name} has seen no change of {{ $labels.kind }} for {{ $value | humanizeDuration }}`,
      description: events,
    },
    {
      alert: `${prefix}EventLoopBlocked`,
      expr: `max by (namespace, pod) (nodejs_eventloop_lag_p99_seconds{${job}}) > 1`,
      for: "5m",
      severity: "warning",
      summary: "The event loop of {{ $labels.pod }} lags by {{ $value | humanizeDuration }}; it may lose its lease",
      description: "It needs more CPU time, or reads too many objects",
    },
  ];
}
