import { type DeepReadonly, isStatusError, type KubernetesObject } from "@keelson/api-machinery";
import { ConfigMap, PersistentVolumeClaim, Pod, type PodObject, Service } from "@keelson/api-machinery/kinds";
import {
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import type { AgentClient } from "../../agent/agent-client.ts";
import type { MiddlewareServices } from "../services.ts";
import { Group, type GroupStatus } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import type { Plugin } from "../../plugin/plugin.ts";
import { type HeldRollout, type RenderedGroup, renderGroup } from "../../plugin/render-group.ts";
import { isPlugin, pluginConfigMapName, PluginError } from "../../plugin/read-plugin.ts";
import { TemplateError } from "../../template/template-error.ts";
import { type AgentAccess, findAgentAccess, readAgentAccess } from "../agent-access.ts";
import { performEffects, type EffectContext } from "../perform-effects.ts";

import { decideGroup } from "./group-decision.ts";
import { heldRollout } from "./rollout-status.ts";
import type { Role } from "./observation.ts";
import { createRoleWatches, type RoleWatches, type WatchedPod } from "./role-watches.ts";

const fieldManager = "middleware-group-controller";

/** The Group of a managed object, by its label. */
const groupOf = ({ metadata }: DeepReadonly<KubernetesObject>): readonly Request[] => {
  const name = metadata.labels?.[labels.group];
  return name === undefined ? [] : [{ namespace: metadata.namespace, name }];
};

/** Creates the Group controller, which manages the Pods of Groups. It never polls: objects are watched, and agents stream changes. */
export function createGroupController(services: MiddlewareServices): ControllerDefinition {
  const watches = createRoleWatches(services.agents);
  const rendered = new Map<string, Rendered>();
  return defineController({
    name: "middleware-group",
    for: Group,
    owns: [Pod, Service],
    watches: [
      // Claims have no owner, so that they survive. They are found by label.
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
    maxConcurrentReconciles: services.settings.group.workers,
    reconcile: (request, context) => reconcile(request, context, { ...services, watches, rendered }),
  });
}

/** For Groups without Pods, whose agents are not called. */
const noAccess: AgentAccess = { token: "" };

interface GroupServices extends MiddlewareServices {
  readonly watches: RoleWatches;
  /** Last rendered Groups, by key. */
  readonly rendered: Map<string, Rendered>;
}

async function reconcile(request: Request, context: ReconcileContext, services: GroupServices): Promise<Result | undefined> {
  const { cache, client, clock, signal } = context;
  const { agents, watches, generateSecret, completePod, settings } = services;
  const group = cache.get(Group, request);
  if (group === undefined) {
    watches.follow(request, [], noAccess);
    services.rendered.delete(keyOf(request));
    return undefined;
  }
  const { namespace, name } = request;
  const app = group.metadata.labels?.[labels.app] ?? "";
  const labelSelector = `${labels.group}=${name}`;
  const pods = cache.list(Pod, { namespace, labelSelector });
  const readAccess = (): Promise<AgentAccess> => readAgentAccess(client, namespace, app, signal);
  const rendered = render(group, context, services);
  // Without agents nothing is asked: the kubelet reports whether Pods are ready.
  const running = hasAgents(rendered) ? pods.flatMap(runningPod) : [];
  const access = running.length === 0 ? noAccess : await findAgentAccess(client, namespace, app, signal);
  if (access === undefined) return undefined;
  // Watched before the roles are read, so that a later change is not missed.
  watches.follow(request, running, access);
  const roles = await readRoles(running, agents, access, signal);
  const decision = decideGroup({
    group,
    rendered,
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
    callTimeoutMs: settings.group.grpcTimeoutMs,
    agentAccess: readAccess,
    generateSecret,
    completePod,
    answersInto: { type: Group, object: group },
  };
  try {
    await performEffects(decision.effects, effects);
    recordEvents(group, decision.effects, context);
  } catch (error) {
    const status = failedBy(error, group);
    if (status === undefined) throw error;
    await performEffects([{ kind: "status", type: Group, object: group, status }], effects);
  }
  const { requeueAfterMs } = decision;
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
}

/** Records an event for every new failover and primary. */
function recordEvents(
  group: DeepReadonly<Group>,
  effects: ReturnType<typeof decideGroup>["effects"],
  { events }: ReconcileContext,
): void {
  const [written] = effects;
  if (written?.kind !== "status") return;
  const { failover, primary } = written.status as GroupStatus;
  const before = group.status;
  if (failover !== undefined && before?.failover === undefined)
    events.event(group, {
      type: "Warning",
      reason: "FailoverStarted",
      note: `${failover.from} failed; promoting ${failover.to}`,
    });
  if (primary !== undefined && before?.primary !== undefined && primary.pod !== before.primary.pod)
    events.event(group, { type: "Normal", reason: "PrimaryChanged", note: `${primary.pod} is the primary` });
}

/** The status of an operation that the API server rejects permanently. Undefined for other errors. */
function failedBy(error: unknown, { status }: DeepReadonly<Group>): object | undefined {
  if (status?.operation?.phase !== "Running") return undefined;
  const isForbidden = isStatusError(error, "Forbidden");
  if (!isForbidden && !isStatusError(error, "Invalid") && !isStatusError(error, "BadRequest")) return undefined;
  const errorClass = isForbidden ? "Forbidden" : "Config";
  return { ...status, operation: { ...status.operation, phase: "Failed", errorClass, message: error.message } };
}

interface Rendered {
  readonly plugin: Plugin;
  /** Plugin of the Pods below the partition. */
  readonly held: Plugin | undefined;
  readonly identity: string;
  readonly result: RenderedGroup | { readonly problem: string };
}

/** A Group that cannot be rendered may have agents: an unknown plugin must not hide a failed primary. */
const hasAgents = (rendered: RenderedGroup | { readonly problem: string }): boolean =>
  "problem" in rendered || rendered.hasAgents;

const keyOf = ({ namespace, name }: Request): string => `${namespace}/${name}`;

/** Renders a Group, or reuses the last result if its spec, its labels and the plugin have not changed. */
function render(
  group: DeepReadonly<Group>,
  { cache }: ReconcileContext,
  { rendered, plugins, agentCommand }: GroupServices,
): RenderedGroup | { readonly problem: string } {
  const { name = "", namespace, uid, generation, labels: own } = group.metadata;
  const plugin = plugins.find(cache, namespace, group.spec.plugin);
  if ("problem" in plugin) return plugin;
  const held = heldRollout(group, (wanted) => plugins.find(cache, namespace, wanted));
  if (held !== undefined && "problem" in held) return held;
  const identity = JSON.stringify([uid, generation, own, held?.rollout]);
  const key = keyOf({ namespace, name });
  const last = rendered.get(key);
  if (last?.plugin === plugin && last.held === held?.plugin && last.identity === identity) return last.result;
  const result = renderOrProblem(group, plugin, agentCommand, held);
  rendered.set(key, { plugin, held: held?.plugin, identity, result });
  return result;
}

function renderOrProblem(
  group: DeepReadonly<Group>,
  plugin: Plugin,
  agentCommand: readonly string[],
  held: HeldRollout | undefined,
): RenderedGroup | { readonly problem: string } {
  try {
    return renderGroup(group, plugin, agentCommand, { held });
  } catch (error) {
    if (error instanceof TemplateError || error instanceof PluginError) return { problem: error.message };
    throw error;
  }
}

/** The Pod, if its agent may be running. */
function runningPod(pod: DeepReadonly<PodObject>): readonly (WatchedPod & { readonly name: string })[] {
  const { name = "", uid = "", deletionTimestamp } = pod.metadata;
  const ip = pod.status?.podIP;
  return ip === undefined || pod.status?.phase !== "Running" || deletionTimestamp !== undefined ? [] : [{ name, uid, ip }];
}

async function readRoles(
  pods: readonly { readonly name: string; readonly ip: string }[],
  agents: AgentClient,
  access: AgentAccess,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Role>> {
  // Asked twice, so that one lost request does not start a failover.
  const ask = async (ip: string): Promise<Role | undefined> =>
    (await agents.role(ip, access, signal)) ?? (await agents.role(ip, access, signal));
  const answers = await Promise.all(pods.map(async ({ name, ip }) => [name, await ask(ip)] as const));
  return new Map(answers.flatMap(([name, role]) => (role === undefined ? [] : [[name, role] as const])));
}
