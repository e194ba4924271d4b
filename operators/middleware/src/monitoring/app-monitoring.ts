import type { AlertRule, DashboardPanel, DashboardVariable } from "@keelson/operator/monitoring";

/** Selects the Apps that the dashboard shows. */
const apps = 'namespace=~"$namespace",app=~"$app"';

/** Variables of {@link appPanels}. */
export const appVariables: readonly DashboardVariable[] = [
  { name: "namespace", query: "label_values(keelson_middleware_app_info, namespace)" },
  { name: "app", query: 'label_values(keelson_middleware_app_info{namespace=~"$namespace"}, app)' },
];

/** Panels of the dashboard of Apps with `spec.monitoring.enabled`. */
export const appPanels: readonly DashboardPanel[] = [
  {
    title: "Ready",
    queries: [{ expr: `keelson_middleware_app_ready{${apps}}`, legend: "{{namespace}}/{{app}}" }],
  },
  {
    title: "Phase",
    queries: [{ expr: `keelson_middleware_app_info{${apps}}`, legend: "{{app}}: {{phase}} ({{version}})" }],
  },
  {
    title: "Missing Pods",
    queries: [
      { expr: `keelson_middleware_pods{${apps}} - keelson_middleware_pods_ready{${apps}}`, legend: "{{app}}/{{group}}" },
    ],
  },
  {
    title: "Pods that answer",
    queries: [{ expr: `keelson_middleware_pod_up{${apps}}`, legend: "{{pod}}" }],
  },
  {
    title: "Primary",
    queries: [{ expr: `keelson_middleware_pod_primary{${apps}} == 1`, legend: "{{pod}}" }],
  },
  {
    title: "Replication lag",
    unit: "bytes",
    queries: [{ expr: `keelson_middleware_replication_lag_bytes{${apps}}`, legend: "{{pod}}" }],
  },
  {
    title: "Failovers and switchovers",
    queries: [
      {
        expr: `increase(keelson_middleware_failovers_total{${apps}}[1h]) + increase(keelson_middleware_switchovers_total{${apps}}[1h])`,
        legend: "{{app}}/{{group}}",
      },
    ],
  },
  {
    title: "Restarts by changes",
    queries: [{ expr: `increase(keelson_middleware_restarts_total{${apps}}[1h])`, legend: "{{app}}/{{group}}" }],
  },
  {
    title: "Tasks of the plan",
    queries: [{ expr: `keelson_middleware_plan_tasks{${apps}} > 0`, legend: "{{app}}: {{state}}" }],
  },
  {
    title: "Changes held",
    queries: [{ expr: `keelson_middleware_changes_held{${apps}}`, legend: "{{app}}: {{reason}}" }],
  },
  {
    title: "Age of the newest backup",
    unit: "s",
    queries: [
      {
        expr: `time() - (keelson_middleware_last_backup_timestamp_seconds{${apps}} or keelson_middleware_backup_schedule_created_timestamp_seconds{${apps}})`,
        legend: "{{app}}",
      },
    ],
  },
  {
    title: "Failed backups",
    queries: [{ expr: `keelson_middleware_backups_failed{${apps}}`, legend: "{{app}}" }],
  },
  {
    title: "Log that waits for its archive",
    queries: [{ expr: `keelson_middleware_log_backlog_files{${apps}}`, legend: "{{app}}" }],
  },
  {
    title: "Age of the archived log",
    unit: "s",
    queries: [{ expr: `time() - keelson_middleware_log_archived_timestamp_seconds{${apps}}`, legend: "{{app}}" }],
  },
  {
    title: "Log lost before it was archived",
    queries: [{ expr: `keelson_middleware_log_lost{${apps}}`, legend: "{{app}}" }],
  },
];

/** Alert rules about Apps with `spec.monitoring.enabled`. */
export const appAlerts: readonly AlertRule[] = [
  {
    alert: "MiddlewareNotReady",
    expr: 'keelson_middleware_app_ready == 0 unless on (namespace, app) keelson_middleware_app_info{phase=~"Stopped|Deleting"}',
    for: "5m",
    severity: "critical",
    summary: "App {{ $labels.namespace }}/{{ $labels.app }} does not serve",
    description: "Find the cause with: keelson app why {{ $labels.app }} -n {{ $labels.namespace }}",
  },
  {
    alert: "MiddlewarePodDown",
    expr: 'keelson_middleware_pod_up == 0 unless on (namespace, app) keelson_middleware_app_info{phase=~"Stopped|Deleting"}',
    for: "2m",
    severity: "warning",
    summary: "Pod {{ $labels.namespace }}/{{ $labels.pod }} does not respond",
  },
  {
    alert: "MiddlewareNoPrimary",
    expr: 'sum by (namespace, app, component, group) (keelson_middleware_pod_primary) == 0 unless on (namespace, app) keelson_middleware_app_info{phase=~"Stopped|Deleting"}',
    for: "30s",
    severity: "critical",
    summary: "Group {{ $labels.group }} of App {{ $labels.namespace }}/{{ $labels.app }} has no primary",
  },
  {
    alert: "MiddlewareReplicationLag",
    expr: "keelson_middleware_replication_lag_bytes > 16777216",
    for: "5m",
    severity: "warning",
    summary: "Pod {{ $labels.namespace }}/{{ $labels.pod }} lags {{ $value | humanize1024 }}B behind the primary",
  },
  {
    alert: "MiddlewareFailover",
    expr: "increase(keelson_middleware_failovers_total[15m]) > 0",
    severity: "warning",
    summary: "Group {{ $labels.group }} of App {{ $labels.namespace }}/{{ $labels.app }} replaced a failed primary",
  },
  {
    alert: "MiddlewareChangeFailed",
    expr: 'keelson_middleware_plan_tasks{state="failed"} > 0',
    for: "1m",
    severity: "warning",
    summary: "A change of App {{ $labels.namespace }}/{{ $labels.app }} failed",
    description: "See keelson app tasks {{ $labels.app }} -n {{ $labels.namespace }}",
  },
  {
    alert: "MiddlewareLogNotArchived",
    // The program keeps its log until it is archived: its volume fills up.
    expr: 'keelson_middleware_log_backlog_files > 0 unless on (namespace, app) keelson_middleware_app_info{phase=~"Stopped|Deleting"}',
    for: "10m",
    severity: "critical",
    summary: "The log of App {{ $labels.namespace }}/{{ $labels.app }} is not archived",
    description: "See kubectl describe backupschedules -n {{ $labels.namespace }}",
  },
  {
    alert: "MiddlewareLogLost",
    expr: "keelson_middleware_log_lost > 0",
    severity: "warning",
    summary: "Log of App {{ $labels.namespace }}/{{ $labels.app }} was lost before it was archived",
    description: "Earlier backups cannot be recovered beyond it. Take a backup.",
  },
  {
    alert: "MiddlewareBackupOld",
    // Without a backup, the age of the BackupSchedule counts. Apps without one are backed up by hand.
    expr: 'time() - (keelson_middleware_last_backup_timestamp_seconds or keelson_middleware_backup_schedule_created_timestamp_seconds) > 172800 and on (namespace, app) keelson_middleware_backup_schedule_created_timestamp_seconds unless on (namespace, app) keelson_middleware_app_info{phase=~"Stopped|Deleting"}',
    severity: "warning",
    summary: "App {{ $labels.namespace }}/{{ $labels.app }} with a BackupSchedule has no backup of the last two days",
  },
];
