import type { DeepReadonly } from "@keelson/api-machinery";
import { parseDuration } from "@keelson/api-machinery/time";
import { readOf } from "@keelson/controller";
import type { MetricFamily } from "@keelson/controller/metrics";
import type { ServerContext, ServerDefinition } from "@keelson/operator";
import type { AgentClient } from "../agent/agent-client.ts";
import { App } from "../api/app.ts";
import { Backup } from "../api/backup.ts";
import { BackupSchedule } from "../api/backup-schedule.ts";
import { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import { type AgentAccess, findAgentAccess } from "../controllers/agent-access.ts";
import { appMetrics, groupLabels, type MonitoredApp } from "./app-metrics.ts";
import type { PodFigures } from "./replication-lag.ts";
import { type MonitoredPod, ProgramMetricsReader } from "./program-metrics-reader.ts";

/** Exports the metrics of Apps with `spec.monitoring.enabled` at the operator's `/metrics`. Only the leader does, so that no value is exported twice. */
export function createMonitoringServer(agents: AgentClient): ServerDefinition {
  return {
    name: "monitoring",
    needsLeaderElection: true,
    reads: [readOf(App), readOf(Group), readOf(Backup), readOf(BackupSchedule)],
    start(context) {
      const reader = new ProgramMetricsReader(agents, context.clock);
      let collection: Promise<readonly MetricFamily[]> | undefined;
      // Scrapes that overlap share one collection, so that slow agents are not asked several times at the same time.
      const stop = context.collectMetrics(() => {
        collection ??= collect(context, agents, reader).finally(() => (collection = undefined));
        return collection;
      });
      return Promise.resolve({
        description: "metrics of Apps",
        stop: () => {
          stop();
          return Promise.resolve();
        },
      });
    },
  };
}

/** An App whose Pods can be asked if their access could be read. */
interface AccessibleApp extends Omit<MonitoredApp, "pods"> {
  readonly access: AgentAccess | undefined;
}

async function collect(
  context: ServerContext,
  agents: AgentClient,
  reader: ProgramMetricsReader,
): Promise<readonly MetricFamily[]> {
  const apps = await monitoredApps(context);
  const [own, programs] = await Promise.all([
    Promise.all(apps.map((app) => withFigures(app, agents))).then(appMetrics),
    reader.read(apps.flatMap(podsOf)),
  ]);
  return [...own, ...programs];
}

async function monitoredApps({ cache, client }: ServerContext): Promise<readonly AccessibleApp[]> {
  const apps = cache.list(App).filter(({ spec }) => spec.monitoring?.enabled === true);
  return Promise.all(
    apps.map(async (app): Promise<AccessibleApp> => {
      const { namespace, name } = app.metadata;
      const groups = cache.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
      const backups = cache.list(Backup, { namespace }).filter(({ spec }) => spec.app.name === name);
      const backupSchedules = cache.list(BackupSchedule, { namespace }).filter(({ spec }) => spec.app.name === name);
      // Without access the agents cannot be asked; the other metrics do not need it.
      const access = await findAgentAccess(client, namespace, name).catch(() => undefined);
      return { app, groups, backups, backupSchedules, access };
    }),
  );
}

/** Asks the agents of all Pods at the same time. Each has a second to answer. */
async function withFigures({ access, ...app }: AccessibleApp, agents: AgentClient): Promise<MonitoredApp> {
  if (access === undefined) return { ...app, pods: undefined };
  const pods = app.groups.flatMap(agentPods);
  const answers = await Promise.all(
    pods.map(async ({ name, ip }): Promise<readonly (readonly [string, PodFigures])[]> => {
      const role = ip === undefined ? undefined : await agents.role(ip, access);
      return role === undefined ? [] : [[name, role]];
    }),
  );
  return { ...app, pods: new Map(answers.flat()) };
}

/** Pods with an agent have a role. */
const agentPods = ({ status }: DeepReadonly<Group>) => (status?.pods ?? []).filter(({ role }) => role !== undefined);

function podsOf({ app, groups, access }: AccessibleApp): readonly MonitoredPod[] {
  if (access === undefined) return [];
  const { namespace = "", name = "" } = app.metadata;
  const interval = app.spec.monitoring?.interval;
  const intervalMs = interval === undefined ? 0 : parseDuration(interval);
  return groups.flatMap((group) =>
    agentPods(group).flatMap(({ name: pod, ip }) =>
      ip === undefined ? [] : [{ labels: { namespace, app: name, ...groupLabels(group), pod }, ip, access, intervalMs }],
    ),
  );
}
