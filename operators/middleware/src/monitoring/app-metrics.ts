import type { DeepReadonly } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import type { MetricFamily, MetricSample } from "@keelson/controller/metrics";
import { type App, taskStates } from "../api/app.ts";
import type { Backup } from "../api/backup.ts";
import type { BackupSchedule } from "../api/backup-schedule.ts";
import type { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import { isLogLost, type LogStatus } from "../controllers/schedule/log-decision.ts";
import { currentTasks } from "../controllers/app/app-status.ts";
import { type PodFigures, replicationLag } from "./replication-lag.ts";

/** An App whose metrics are exported. */
export interface MonitoredApp {
  readonly app: DeepReadonly<App>;
  readonly groups: readonly DeepReadonly<Group>[];
  readonly backups: readonly DeepReadonly<Backup>[];
  readonly backupSchedules: readonly DeepReadonly<BackupSchedule>[];
  /** Figures by Pod. Pods whose agents did not respond are missing. Undefined if the agents could not be asked. */
  readonly pods: ReadonlyMap<string, PodFigures> | undefined;
}

type Read = (app: MonitoredApp) => readonly MetricSample[];

interface Definition {
  readonly help: string;
  readonly type: "counter" | "gauge";
  readonly read: Read;
}

/** The metrics of an App, by name. Every sample has the labels `namespace` and `app`. */
const definitions: Readonly<Record<string, Definition>> = {
  keelson_middleware_app_info: {
    help: "Plugin, version and phase of the App; the value is 1",
    type: "gauge",
    read: ({ app: { spec, status } }) => [
      {
        labels: { plugin: spec.plugin.name, version: status?.version ?? "", phase: status?.phase ?? "Pending" },
        value: 1,
      },
    ],
  },
  keelson_middleware_app_ready: {
    help: "Whether the programs of the App serve",
    type: "gauge",
    read: ({ app: { status } }) => {
      const isReady = status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True");
      return [{ labels: {}, value: Number(isReady ?? false) }];
    },
  },
  keelson_middleware_changes_held: {
    help: "Whether changes are paused or wait for approval",
    type: "gauge",
    read: ({ app: { status } }) => {
      const isWaiting = status?.plan?.approval === "Required" && status.plan.finishedAt === undefined;
      return [
        { labels: { reason: "paused" }, value: Number(status?.pausedAt !== undefined) },
        { labels: { reason: "approval" }, value: Number(isWaiting) },
      ];
    },
  },
  keelson_middleware_plan_tasks: {
    help: "Tasks of the plan for the current spec by state",
    type: "gauge",
    read: ({ app: { status = {} } }) =>
      taskStates.map((state) => ({
        labels: { state },
        value: currentTasks(status).filter((task) => task.status === state).length,
      })),
  },
  keelson_middleware_pods: {
    help: "Desired Pods of the group",
    type: "gauge",
    read: eachGroup((group) => group.status?.replicas),
  },
  keelson_middleware_pods_ready: {
    help: "Ready Pods of the group",
    type: "gauge",
    read: eachGroup((group) => group.status?.readyReplicas),
  },
  keelson_middleware_pod_up: {
    help: "Whether the agent and the program of the Pod answer; without an agent, whether the Pod is ready",
    type: "gauge",
    read: eachPod((pod, pods, { status }) => {
      const state = status?.pods?.find(({ name }) => name === pod);
      if (state !== undefined && state.role === undefined) return Number(state.ready ?? false);
      return Number(pods.has(pod) && pods.get(pod)?.role !== "unknown");
    }),
  },
  keelson_middleware_pod_primary: {
    help: "Whether the program of the Pod reports that it is the primary",
    type: "gauge",
    read: eachPod((pod, pods) => (pods.has(pod) ? Number(pods.get(pod)?.role === "primary") : undefined)),
  },
  keelson_middleware_replication_lag_bytes: {
    help: "Lag of the replica behind the primary in bytes",
    type: "gauge",
    read: eachPod((pod, pods, group) => replicationLag(pods.get(pod), pods.get(group.status?.primary?.pod ?? ""))),
  },
  keelson_middleware_restarts_total: {
    help: "Pods of the group that the operator has restarted",
    type: "counter",
    read: eachGroup(({ status }) => status?.disruptions?.restarts ?? 0),
  },
  keelson_middleware_switchovers_total: {
    help: "Planned changes of the group's primary",
    type: "counter",
    read: eachGroup(({ status }) => status?.disruptions?.switchovers ?? 0),
  },
  keelson_middleware_failovers_total: {
    help: "Unplanned changes of the group's primary",
    type: "counter",
    read: eachGroup(({ status }) => status?.disruptions?.failovers ?? 0),
  },
  keelson_middleware_last_backup_timestamp_seconds: {
    help: "When the newest Backup of the App completed, since the epoch",
    type: "gauge",
    read: ({ backups }) => {
      const times = backups.flatMap(({ status }) =>
        status?.phase === "Completed" ? (parseTime(status.completedAt ?? "") ?? []) : [],
      );
      return times.length === 0 ? [] : [{ labels: {}, value: Math.max(...times) / 1000 }];
    },
  },
  keelson_middleware_backup_schedule_created_timestamp_seconds: {
    help: "When the oldest BackupSchedule of the App that is not suspended was created, since the epoch",
    type: "gauge",
    read: ({ backupSchedules }) => {
      const times = backupSchedules.flatMap(({ metadata, spec }) =>
        spec.suspend === true ? [] : (parseTime(metadata.creationTimestamp ?? "") ?? []),
      );
      return times.length === 0 ? [] : [{ labels: {}, value: Math.min(...times) / 1000 }];
    },
  },
  keelson_middleware_log_backlog_files: {
    help: "Complete log files that have not been archived",
    type: "gauge",
    read: eachLog(({ backlog }) => backlog),
  },
  keelson_middleware_log_archived_timestamp_seconds: {
    help: "When a log file was last archived, since the epoch",
    type: "gauge",
    read: eachLog(({ archivedAt }) => {
      const time = parseTime(archivedAt ?? "");
      return time === undefined ? undefined : time / 1000;
    }),
  },
  keelson_middleware_log_lost: {
    help: "Whether log was lost before it was archived, and no Backup was taken since",
    type: "gauge",
    read: eachLog((log, backups) => Number(isLogLost(log, backups))),
  },
  keelson_middleware_backups_failed: {
    help: "Failed Backups of the App that have not been deleted",
    type: "gauge",
    read: ({ backups }) => [{ labels: {}, value: backups.filter(({ status }) => status?.phase === "Failed").length }],
  },
};

/** Names of all metrics of Apps. */
export const appMetricNames: readonly string[] = Object.keys(definitions);

/** The metrics of Apps. Pure. */
export function appMetrics(apps: readonly MonitoredApp[]): readonly MetricFamily[] {
  return Object.entries(definitions).map(([name, { help, type, read }]) => ({
    ...{ name, help, type },
    samples: apps.flatMap((each) => {
      const { namespace = "", name: app = "" } = each.app.metadata;
      return read(each).map(({ labels: own, value }) => ({ labels: { namespace, app, ...own }, value }));
    }),
  }));
}

/** Labels of a group. */
export const groupLabels = ({ metadata }: DeepReadonly<Group>) => ({
  component: metadata.labels?.[labels.component] ?? "",
  group: metadata.labels?.[labels.group] ?? "",
});

/** A value per archive of a log. Undefined: no sample. */
function eachLog(valueOf: (log: LogStatus, backups: readonly DeepReadonly<Backup>[]) => number | undefined): Read {
  return ({ backupSchedules, backups }) =>
    backupSchedules.flatMap(({ status }) => {
      const value = status?.log === undefined ? undefined : valueOf(status.log, backups);
      return value === undefined ? [] : [{ labels: {}, value }];
    });
}

/** A value per group. Undefined: no sample. */
function eachGroup(valueOf: (group: DeepReadonly<Group>) => number | undefined): Read {
  return ({ groups }) =>
    groups.flatMap((group) => {
      const value = valueOf(group);
      return value === undefined ? [] : [{ labels: groupLabels(group), value }];
    });
}

/** A value per Pod. Undefined: no sample. No Pod has one if the agents could not be asked. */
function eachPod(
  valueOf: (pod: string, pods: ReadonlyMap<string, PodFigures>, group: DeepReadonly<Group>) => number | undefined,
): Read {
  return ({ groups, pods }) =>
    groups.flatMap((group) =>
      (group.status?.pods ?? []).flatMap(({ name: pod }) => {
        const value = pods === undefined ? undefined : valueOf(pod, pods, group);
        return value === undefined ? [] : [{ labels: { ...groupLabels(group), pod }, value }];
      }),
    );
}
