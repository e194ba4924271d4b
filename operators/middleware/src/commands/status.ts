import { type DeepReadonly, isNotFound, isStatusError } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type CommandContext, formatResult, renderTable } from "@keelson/operator";
import { createAgentClient } from "../agent/agent-client.ts";
import { App } from "../api/app.ts";
import { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import { AgentCallError } from "../controllers/agent-call-error.ts";
import { readAgentAccess } from "../controllers/agent-access.ts";
import type { PodFigures } from "../monitoring/replication-lag.ts";
import { keyOf } from "./app-flags.ts";
import { appTopology, type AppTopology } from "./app-topology.ts";

/** `keelson app status`: shows the Pods of an App with their roles, versions and replication lag. */
export async function showStatus(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const app = await client.get(App, { namespace, name });
  const { items } = await client.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
  const topology = appTopology(app, items, await askAgents(client, app, items));
  context.stdout.write(formatResult(context, topology, () => describe(topology)));
  return 0;
}

/** What the agents of an App report, by Pod. Agents that cannot be reached from here are missing, as are all if the user may not read their token. */
async function askAgents(
  client: Client,
  { metadata: { namespace, name = "" } }: DeepReadonly<App>,
  groups: readonly DeepReadonly<Group>[],
): Promise<ReadonlyMap<string, PodFigures>> {
  const pods = groups.flatMap(({ status }) => status?.pods ?? []).filter(({ role }) => role !== undefined);
  const figures = new Map<string, PodFigures>();
  if (pods.length === 0) return figures;
  const access = await readAgentAccess(client, namespace, name).catch((error: unknown) => {
    if (isStatusError(error, "Forbidden") || isNotFound(error) || error instanceof AgentCallError) return undefined;
    throw error;
  });
  if (access === undefined) return figures;
  const agents = createAgentClient();
  try {
    await Promise.all(
      pods.map(async ({ name: pod, ip }) => {
        const role = ip === undefined ? undefined : await agents.role(ip, access);
        if (role !== undefined) figures.set(pod, role);
      }),
    );
  } finally {
    agents.close();
  }
  return figures;
}

function describe({ namespace, name, phase, message, plugin, version, transitions, pods }: AppTopology): string {
  const lines = [
    `App ${namespace}/${name}: ${phase}${message === "" ? "" : `, ${message}`}`,
    `${plugin} ${version ?? "(version not reported yet)"}`,
    ...transitions,
  ];
  const rows = pods.map((pod) => [
    pod.name,
    pod.component,
    pod.role ?? "-",
    pod.ready ? "yes" : "no",
    pod.version ?? "-",
    pod.lagBytes === undefined ? "-" : `${pod.lagBytes} B`,
  ]);
  const table = rows.length === 0 ? "" : `\n${renderTable([["POD", "COMPONENT", "ROLE", "READY", "VERSION", "LAG"], ...rows])}`;
  return `${lines.join("\n")}\n${table}`;
}
