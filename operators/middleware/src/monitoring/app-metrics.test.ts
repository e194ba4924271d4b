import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { App } from "../api/app.ts";
import type { Backup } from "../api/backup.ts";
import type { BackupSchedule } from "../api/backup-schedule.ts";
import type { Group } from "../api/group.ts";
import { coldChange, hot, provisioned } from "../testing/simulated-app.ts";
import { appAlerts, appPanels, appVariables } from "./app-monitoring.ts";
import { appMetricNames, appMetrics } from "./app-metrics.ts";
import type { PodFigures } from "./replication-lag.ts";

const namesIn = (text: string): readonly string[] => [...new Set(text.match(/keelson_middleware_\w+/g))];

const nothing = { groups: [], backups: [], backupSchedules: [], pods: undefined };

describe("the metrics of an App", { timeout: 60_000 }, () => {
  it("show its Pods, its changes and its backups", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run();
    const pods = new Map<string, PodFigures>([
      ["cache-redis-nodes-0", { role: "replica", offset: 90 }],
      ["cache-redis-nodes-1", { role: "primary", offset: 100 }],
      ["cache-redis-nodes-2", { role: "unknown" }],
    ]);
    const backups = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"].map(
      (completedAt) => ({ status: { phase: "Completed", completedAt } }) as DeepReadonly<Backup>,
    );
    const app = simulation.store.get("App", "cache") as DeepReadonly<App>;
    const groups = simulation.store.all("Group") as readonly DeepReadonly<Group>[];
    const families = appMetrics([{ app, groups, backups, backupSchedules: [], pods }]);
    const valuesOf = (name: string, ...by: string[]) =>
      Object.fromEntries(
        (families.find((family) => family.name === `keelson_middleware_${name}`)?.samples ?? []).map(({ labels, value }) => [
          by.map((key) => labels[key]).join("/"),
          value,
        ]),
      );
    expect(valuesOf("app_info", "namespace", "app", "version", "phase")).toEqual({ "default/cache/7.0/Running": 1 });
    expect(valuesOf("app_ready", "app")).toEqual({ cache: 1 });
    expect(valuesOf("pods_ready", "component", "group")).toEqual({ "redis/nodes": 3 });
    expect(valuesOf("pod_up", "pod")).toEqual({
      "cache-redis-nodes-0": 1,
      "cache-redis-nodes-1": 1,
      "cache-redis-nodes-2": 0,
    });
    expect(valuesOf("replication_lag_bytes", "pod")).toEqual({ "cache-redis-nodes-0": 10 });
    expect(valuesOf("restarts_total", "group")).toEqual({ nodes: 3 });
    expect(valuesOf("switchovers_total", "group")).toEqual({ nodes: 1 });
    expect(valuesOf("failovers_total", "group")).toEqual({ nodes: 0 });
    expect(valuesOf("plan_tasks", "state")).toMatchObject({ done: 1, failed: 0 });
    expect(valuesOf("changes_held", "reason")).toEqual({ paused: 0, approval: 0 });
    expect(valuesOf("last_backup_timestamp_seconds", "app")).toEqual({ cache: Date.UTC(2026, 0, 2) / 1000 });
  });

  it("count a failed plan only while its spec applies", async () => {
    const simulation = await provisioned();
    const failed = () =>
      appMetrics([{ app: simulation.store.get("App", "cache") as DeepReadonly<App>, ...nothing }])
        .find(({ name }) => name === "keelson_middleware_plan_tasks")
        ?.samples.find(({ labels }) => labels.state === "failed")?.value;
    simulation.change(hot("nonsense"));
    await simulation.run();
    expect(failed()).toBe(1);
    simulation.change(hot("64mb"));
    await simulation.run();
    expect(failed()).toBe(0);
  });

  it("omit Pods whose agents could not be queried", async () => {
    const simulation = await provisioned();
    const app = simulation.store.get("App", "cache") as DeepReadonly<App>;
    const groups = simulation.store.all("Group") as readonly DeepReadonly<Group>[];
    const families = appMetrics([{ ...nothing, app, groups }]);
    const samplesOf = (name: string) => families.find((family) => family.name === `keelson_middleware_${name}`)?.samples;
    expect(["pod_up", "pod_primary", "replication_lag_bytes"].flatMap(samplesOf)).toEqual([]);
    expect(samplesOf("pods_ready")).toMatchObject([{ value: 3 }]);
  });

  it("show since when backups are scheduled", async () => {
    const app = (await provisioned()).store.get("App", "cache") as DeepReadonly<App>;
    const schedule = (creationTimestamp: string, suspend: boolean) =>
      ({ metadata: { creationTimestamp }, spec: { suspend } }) as unknown as DeepReadonly<BackupSchedule>;
    const valueOf = (...backupSchedules: DeepReadonly<BackupSchedule>[]) =>
      appMetrics([{ ...nothing, app, backupSchedules }])
        .find(({ name }) => name === "keelson_middleware_backup_schedule_created_timestamp_seconds")
        ?.samples.map(({ value }) => value);
    const suspended = schedule("2025-01-01T00:00:00Z", true);
    expect(valueOf(suspended)).toEqual([]);
    expect(valueOf(suspended, schedule("2026-01-02T00:00:00Z", false), schedule("2026-01-01T00:00:00Z", false))).toEqual([
      Date.UTC(2026, 0, 1) / 1000,
    ]);
  });

  it("alert neither about a stopped App nor about backups that are not scheduled, and about a first backup that is missing", () => {
    const exprOf = (alert: string) => appAlerts.find((rule) => rule.alert === alert)?.expr;
    const isRunning = /unless on \(namespace, app\) keelson_middleware_app_info\{phase=~"Stopped\|Deleting"\}$/;
    for (const alert of ["MiddlewareNotReady", "MiddlewarePodDown", "MiddlewareNoPrimary", "MiddlewareBackupOld"])
      expect(exprOf(alert)).toMatch(isRunning);
    const schedule = "keelson_middleware_backup_schedule_created_timestamp_seconds";
    expect(exprOf("MiddlewareBackupOld")).toContain(`or ${schedule}) > 172800 and on (namespace, app) ${schedule}`);
  });

  it("are those that the alerts and the dashboard use", () => {
    const alerts = appAlerts.flatMap(({ expr }) => namesIn(expr));
    const shown = appPanels.flatMap(({ queries }) => queries.flatMap(({ expr }) => namesIn(expr)));
    const chosen = appVariables.flatMap(({ query }) => namesIn(query));
    expect(alerts.length).toBeGreaterThan(5);
    expect([...alerts, ...shown, ...chosen].filter((name) => !appMetricNames.includes(name))).toEqual([]);
    // The dashboard shows everything.
    expect(appMetricNames.filter((name) => !shown.includes(name))).toEqual([]);
  });
});
