import { type ControllerDefinition, defineController, type ReconcileContext, readOf, type Request } from "@keelson/controller";
import type { MiddlewareServices } from "../services.ts";
import { Component } from "../../api/component.ts";
import { Group } from "../../api/group.ts";
import { labels, pluginNamespace } from "../../api/names.ts";
import { pluginConfigMapName } from "../../plugin/read-plugin.ts";
import { readAgentAccess } from "../agent-access.ts";
import { performEffects } from "../perform-effects.ts";
import { decideComponent } from "./component-decision.ts";

const fieldManager = "middleware-component-controller";

/** Creates the Component controller, which passes changes to Groups in order. */
export function createComponentController(services: MiddlewareServices): ControllerDefinition {
  return defineController({
    name: "middleware-component",
    for: Component,
    owns: [Group],
    reads: [readOf(Group)],
    maxConcurrentReconciles: services.settings.component.workers,
    reconcile: (request, context) => reconcile(request, context, services),
  });
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  { agents, plugins, generateSecret, settings }: MiddlewareServices,
): Promise<void> {
  const { cache, client, clock, signal } = context;
  const component = cache.get(Component, request);
  if (component === undefined) return;
  const { namespace, name } = request;
  const groups = cache.list(Group, { namespace }).filter((group) => group.spec.componentRef.name === name);
  const plugin = plugins.find(cache, namespace, component.spec.plugin);
  const pluginName = pluginConfigMapName(component.spec.plugin.name, component.spec.plugin.version);
  const decision = decideComponent({
    component,
    groups: new Map(groups.map((group) => [group.metadata.labels?.[labels.group] ?? "", group])),
    pluginRef: "problem" in plugin ? { name: pluginName, namespace: pluginNamespace } : plugin.configMap,
    now: clock.now(),
  });
  await performEffects(decision.effects, {
    client,
    fieldManager,
    signal,
    agents,
    callTimeoutMs: settings.component.grpcTimeoutMs,
    generateSecret,
    agentAccess: () => readAgentAccess(client, namespace, component.spec.appRef.name, signal),
    answersInto: { type: Component, object: component },
  });
}
