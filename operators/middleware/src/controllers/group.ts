import { type DeepReadonly, isStatusError, type KubernetesObject } from "@keelson/api-machinery";
import { ConfigMap, PersistentVolumeClaim, Pod, type PodObject, Service } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, type ReconcileContext, type Request, watchOf } from "@keelson/controller";
import type { AgentCalls } from "../agent/agent-calls.ts";
import { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import type { Plugin } from "../plugin/plugin.ts";
import { type RenderedGroup, renderGroup } from "../plugin/render-group.ts";
import { isPlugin, pluginConfigMapName, PluginError } from "../plugin/read-plugin.ts";
import { TemplateError } from "../template/template-error.ts";
import { readAgentToken } from "./agent-token.ts";
import { carryOut, type EffectContext } from "./carry-out.ts";
import { findPlugin } from "./find-plugin.ts";
import { decideGroup } from "./group/group-decision.ts";
import type { Role } from "./group/observation.ts";
import { createRoleWatches, type RoleWatches, type WatchedPod } from "./role-watches.ts";

const fieldManager = "middleware-group-controller";

/** The Group that an object was made for, by its label. */
const groupOf = ({ metadata }: DeepReadonly<KubernetesObject>): readonly Request[] => {
  const name = metadata.labels?.[labels.group];
  return name === undefined ? [] : [{ namespace: metadata.namespace, name }];
};

/** Makes and changes the Pods of Groups. Everything that it waits for tells: objects by watch, agents by stream. */
export function createGroupController(agents: AgentCalls, agentCommand: readonly string[]): ControllerDefinition {
  const watches = createRoleWatches(agents);
  const rendered = new Map<string, Rendered>();
  return defineController({
    name: "middleware-group",
    for: Group,
    owns: [Pod, Service],
    watches: [
      // Claims are nobody's, so that they stay; they are found by their label.
      watchOf(PersistentVolumeClaim, groupOf),
      watchOf(ConfigMap, (configMap, { cache }) =>
        isPlugin(configMap)
          ? cache
              .list(Group)
              .filter(({ spec }) => pluginConfigMapName(spec.plugin.name, spec.plugin.version) === configMap.metadata.name)
              .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" }))
          : groupOf(configMap),
      ),
    ],
    triggers: [{ start: ({ enqueue }) => watches.start(enqueue) }],
    maxConcurrentReconciles: 20,
    reconcile: (request, context) => reconcile(request, context, { agents, watches, rendered, agentCommand }),
  });
}

interface GroupTools {
  readonly agents: AgentCalls;
  readonly watches: RoleWatches;
  /** What Groups were last rendered to, by their keys. */
  readonly rendered: Map<string, Rendered>;
  readonly agentCommand: readonly string[];
}

async function reconcile(request: Request, context: ReconcileContext, tools: GroupTools): Promise<void> {
  const { cache, client, clock, signal } = context;
  const { agents, watches } = tools;
  const group = cache.get(Group, request);
  if (group === undefined) {
    watches.follow(request, [], "");
    tools.rendered.delete(keyOf(request));
    return;
  }
  const { namespace, name } = request;
  const app = group.metadata.labels?.[labels.app] ?? "";
  const labelSelector = `${labels.group}=${name}`;
  const pods = cache.list(Pod, { namespace, labelSelector });
  const readToken = (): Promise<string> => readAgentToken(client, namespace, app, signal);
  const running = pods.flatMap(runningPod);
  const token = running.length === 0 ? "" : await readToken();
  // Watched before it is asked: a change right after the answer is not missed.
  watches.follow(request, running, token);
  const roles = await askRoles(running, agents, token, signal);
  const decision = decideGroup({
    group,
    rendered: render(group, context, tools),
    pods,
    claims: cache.list(PersistentVolumeClaim, { namespace, labelSelector }),
    configs: cache.list(ConfigMap, { namespace, labelSelector }),
    services: cache.list(Service, { namespace, labelSelector }),
    roles,
    now: clock.now(),
  });
  const effects: EffectContext = {
    client,
    fieldManager,
    signal,
    agents,
    agentToken: readToken,
    answersInto: { type: Group, object: group },
  };
  try {
    await carryOut(decision.effects, effects);
  } catch (error) {
    const status = failedBy(error, group);
    if (status === undefined) throw error;
    await carryOut([{ kind: "status", type: Group, object: group, status }], effects);
  }
}

/** What the API server refuses of an operation it refuses each time: the operation has failed. Undefined for other errors. */
function failedBy(error: unknown, { status }: DeepReadonly<Group>): object | undefined {
  if (status?.operation?.phase !== "Running") return undefined;
  const isForbidden = isStatusError(error, "Forbidden");
  if (!isForbidden && !isStatusError(error, "Invalid") && !isStatusError(error, "BadRequest")) return undefined;
  const errorClass = isForbidden ? "Forbidden" : "Config";
  return { ...status, operation: { ...status.operation, phase: "Failed", errorClass, message: error.message } };
}

interface Rendered {
  readonly plugin: Plugin;
  readonly identity: string;
  readonly result: RenderedGroup | { readonly problem: string };
}

const keyOf = ({ namespace, name }: Request): string => `${namespace}/${name}`;

/** Renders a Group where its spec, its labels or the plugin are others than last time: not for every change of its status. */
function render(
  group: DeepReadonly<Group>,
  { cache }: ReconcileContext,
  { rendered, agentCommand }: GroupTools,
): RenderedGroup | { readonly problem: string } {
  const { name = "", namespace, uid, generation, labels: own } = group.metadata;
  const plugin = findPlugin(cache, namespace, group.spec.plugin);
  if ("problem" in plugin) return plugin;
  const identity = JSON.stringify([uid, generation, own]);
  const key = keyOf({ namespace, name });
  const last = rendered.get(key);
  if (last?.plugin === plugin && last.identity === identity) return last.result;
  const result = renderOrProblem(group, plugin, agentCommand);
  rendered.set(key, { plugin, identity, result });
  return result;
}

function renderOrProblem(
  group: DeepReadonly<Group>,
  plugin: Plugin,
  agentCommand: readonly string[],
): RenderedGroup | { readonly problem: string } {
  try {
    return renderGroup(group, plugin, agentCommand);
  } catch (error) {
    if (error instanceof TemplateError || error instanceof PluginError) return { problem: error.message };
    throw error;
  }
}

/** A Pod whose agent may answer. */
function runningPod(pod: DeepReadonly<PodObject>): readonly (WatchedPod & { readonly name: string })[] {
  const { name = "", uid = "", deletionTimestamp } = pod.metadata;
  const ip = pod.status?.podIP;
  return ip === undefined || pod.status?.phase !== "Running" || deletionTimestamp !== undefined ? [] : [{ name, uid, ip }];
}

async function askRoles(
  pods: readonly { readonly name: string; readonly ip: string }[],
  agents: AgentCalls,
  token: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Role>> {
  const answers = await Promise.all(pods.map(async ({ name, ip }) => [name, await agents.role(ip, token, signal)] as const));
  return new Map(answers.flatMap(([name, role]) => (role === undefined ? [] : [[name, role] as const])));
}
