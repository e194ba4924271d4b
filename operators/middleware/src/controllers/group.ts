import { ConfigMap, type DeepReadonly, PersistentVolumeClaim, Pod, type PodObject, Service } from "@keelson/api-machinery";
import {
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  readOf,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import type { AgentCalls } from "../agent/agent-calls.ts";
import { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import { type RenderedGroup, renderGroup } from "../plugin/render-group.ts";
import { PluginError } from "../plugin/read-plugin.ts";
import { TemplateError } from "../template/template-error.ts";
import { readAgentToken } from "./agent-token.ts";
import { carryOut } from "./carry-out.ts";
import { findPlugin } from "./find-plugin.ts";
import { decideGroup, type Role } from "./group-decision.ts";

const fieldManager = "middleware-group-controller";

/** Makes and changes the Pods of Groups. */
export function createGroupController(agents: AgentCalls, agentCommand: readonly string[]): ControllerDefinition {
  return defineController({
    name: "middleware-group",
    for: Group,
    owns: [Pod],
    watches: [
      // Claims are nobody's, so that they stay; they are found by their label.
      watchOf(PersistentVolumeClaim, (claim) => {
        const name = claim.metadata.labels?.[labels.group];
        return name === undefined ? [] : [{ namespace: claim.metadata.namespace, name }];
      }),
    ],
    reads: [readOf(Pod), readOf(PersistentVolumeClaim), readOf(ConfigMap), readOf(Service)],
    maxConcurrentReconciles: 10,
    reconcile: (request, context) => reconcile(request, context, agents, agentCommand),
  });
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  agents: AgentCalls,
  agentCommand: readonly string[],
): Promise<Result | undefined> {
  const { cache, client, clock, signal } = context;
  const group = cache.get(Group, request);
  if (group === undefined) return undefined;
  const { namespace, name } = request;
  const app = group.metadata.labels?.[labels.app] ?? "";
  const labelSelector = `${labels.group}=${name}`;
  const pods = cache.list(Pod, { namespace, labelSelector });
  const agentToken = (): Promise<string> => readAgentToken(client, namespace, app, signal);
  const decision = decideGroup({
    group,
    rendered: render(group, context, agentCommand),
    pods,
    claims: cache.list(PersistentVolumeClaim, { namespace, labelSelector }),
    configs: cache.list(ConfigMap, { namespace, labelSelector }),
    services: cache.list(Service, { namespace, labelSelector }),
    roles: await askRoles(pods, agents, agentToken, signal),
    now: clock.now(),
  });
  const context2 = {
    client,
    fieldManager,
    signal,
    agents,
    agentToken,
    writeStatus: (status: object) =>
      carryOut([{ kind: "status", type: Group, object: group, status }], context2).then(() => true),
  };
  await carryOut(decision.effects, context2);
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

function render(
  group: DeepReadonly<Group>,
  { cache }: ReconcileContext,
  agentCommand: readonly string[],
): RenderedGroup | { readonly problem: string } {
  const plugin = findPlugin(cache, group.metadata.namespace, group.spec.plugin);
  if ("problem" in plugin) return plugin;
  try {
    return renderGroup(group, plugin, agentCommand);
  } catch (error) {
    if (error instanceof TemplateError || error instanceof PluginError) return { problem: error.message };
    throw error;
  }
}

async function askRoles(
  pods: readonly DeepReadonly<PodObject>[],
  agents: AgentCalls,
  agentToken: () => Promise<string>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Role>> {
  const asked = pods.flatMap((pod) => {
    const ip = pod.status?.podIP;
    const isUp = pod.status?.phase === "Running" && pod.metadata.deletionTimestamp === undefined;
    return ip === undefined || !isUp ? [] : [{ name: pod.metadata.name ?? "", ip }];
  });
  if (asked.length === 0) return new Map();
  const token = await agentToken();
  const answers = await Promise.all(asked.map(async ({ name, ip }) => [name, await agents.role(ip, token, signal)] as const));
  return new Map(answers.flatMap(([name, role]) => (role === undefined ? [] : [[name, role] as const])));
}
