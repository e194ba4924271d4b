import type { DeepReadonly } from "@keelson/api-machinery";
import { readOf } from "@keelson/controller";
import type { MetricFamily } from "@keelson/controller/metrics";
import type { ServerContext, ServerDefinition } from "@keelson/operator";
import type { AgentClient } from "../agent/agent-client.ts";
import { App } from "../api/app.ts";
import { Backup } from "../api/backup.ts";
import { BackupSchedule } from "../api/backup-schedule.ts";
import { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import { findAgentToken } from "../controllers/agent-token.ts";
import { appMetrics, type MonitoredApp, type PodFigures } from "./app-metrics.ts";

/** Exports the metrics of Apps with `spec.monitoring.enabled` at the operator's `/metrics`. Only the leader does, so that no value is exported twice. */
export function createMonitoringServer(agents: AgentClient): ServerDefinition {
  return {
    name: "monitoring",
    needsLeaderElection: true,
    reads: [readOf(App), readOf(Group), readOf(Backup), readOf(BackupSchedule)],
    start(context) {
      let collection: Promise<readonly MetricFamily[]> | undefined;
      // Scrapes that overlap share one collection, so that slow agents are not asked several times at the same time.
      const stop = context.collectMetrics(() => {
        collection ??= monitoredApps(context, agents)
          .then(appMetrics)
          .finally(() => (collection = undefined));
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

async function monitoredApps({ cache, client }: ServerContext, agents: AgentClient): Promise<readonly MonitoredApp[]> {
  const apps = cache.list(App).filter(({ spec }) => spec.monitoring?.enabled === true);
  return Promise.all(
    apps.map(async (app): Promise<MonitoredApp> => {
      const { namespace, name } = app.metadata;
      const groups = cache.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
      const backups = cache.list(Backup, { namespace }).filter(({ spec }) => spec.app.name === name);
      const backupSchedules = cache.list(BackupSchedule, { namespace }).filter(({ spec }) => spec.app.name === name);
      // Without a token the agents cannot be asked; the other metrics do not need it.
      const token = await findAgentToken(client, namespace, name).catch(() => undefined);
      const pods = token === undefined ? undefined : await podFigures(groups, agents, token);
      return { app, groups, backups, backupSchedules, pods };
    }),
  );
}

/** Asks the agents of all Pods at the same time. Each has a second to answer. */
async function podFigures(
  groups: readonly DeepReadonly<Group>[],
  agents: AgentClient,
  token: string,
): Promise<ReadonlyMap<string, PodFigures>> {
  const pods = groups.flatMap(({ status }) => status?.pods ?? []);
  const answers = await Promise.all(
    pods.map(async ({ name, ip }) => {
      const role = ip === undefined ? undefined : await agents.role(ip, token);
      return role === undefined ? [] : [[name, role] as const];
    }),
  );
  return new Map(answers.flat());
}
