import { type ControllerDefinition, defineController, type ReconcileContext, readOf, type Request } from "@keelson/controller";
import type { AgentCalls } from "../agent/agent-calls.ts";
import { Component } from "../api/component.ts";
import { Group } from "../api/group.ts";
import { labels, pluginNamespace } from "../api/names.ts";
import { pluginConfigMapName } from "../plugin/read-plugin.ts";
import { readAgentToken } from "./agent-token.ts";
import { carryOut } from "./carry-out.ts";
import { decideComponent } from "./component-decision.ts";
import { findPlugin } from "./find-plugin.ts";

const fieldManager = "middleware-component-controller";

/** Hands changes of Components to their Groups, in their order. */
export function createComponentController(agents: AgentCalls): ControllerDefinition {
  return defineController({
    name: "middleware-component",
    for: Component,
    owns: [Group],
    reads: [readOf(Group)],
    maxConcurrentReconciles: 10,
    reconcile: (request, context) => reconcile(request, context, agents),
  });
}

async function reconcile(request: Request, context: ReconcileContext, agents: AgentCalls): Promise<void> {
  const { cache, client, clock, signal } = context;
  const component = cache.get(Component, request);
  if (component === undefined) return;
  const { namespace, name } = request;
  const groups = cache.list(Group, { namespace }).filter((group) => group.spec.componentRef.name === name);
  const plugin = findPlugin(cache, namespace, component.spec.plugin);
  const pluginName = pluginConfigMapName(component.spec.plugin.name, component.spec.plugin.version);
  const decision = decideComponent({
    component,
    groups: new Map(groups.map((group) => [group.metadata.labels?.[labels.group] ?? "", group])),
    pluginRef: "problem" in plugin ? { name: pluginName, namespace: pluginNamespace } : plugin.configMap,
    now: clock.now(),
  });
  await carryOut(decision.effects, {
    client,
    fieldManager,
    signal,
    agents,
    agentToken: () => readAgentToken(client, namespace, component.spec.appRef.name, signal),
    answersInto: { type: Component, object: component },
  });
}
