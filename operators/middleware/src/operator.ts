import type { Operator } from "@keelson/operator";
import { createAgentCalls } from "./agent/agent-calls.ts";
import { App } from "./api/app.ts";
import { Component } from "./api/component.ts";
import { Group } from "./api/group.ts";
import { accessSecretName, group } from "./api/names.ts";
import { agentCommand } from "./commands/agent.ts";
import { changeCommands } from "./commands/changes.ts";
import { createAppController } from "./controllers/app.ts";
import { createComponentController } from "./controllers/component.ts";
import { createGroupController } from "./controllers/group.ts";
import { pluginServer } from "./plugin-server.ts";

/** What differs where the operator runs. */
export interface MiddlewareOptions {
  /** What Pods run as their agent, up to its flags. Default: `keelson middleware agent`. */
  readonly agentCommand?: readonly string[];
}

/** Makes the middleware family's operator. */
export function createMiddleware({
  agentCommand: command = ["keelson", "middleware", "agent"],
}: MiddlewareOptions = {}): Operator {
  const agents = createAgentCalls();
  return {
    name: "middleware",
    commandName: "app",
    description: "run stateful middleware and change it without losing data",
    resources: [App, Component, Group],
    rules: [
      { apiGroups: [group], resources: ["apps"], verbs: ["get", "list", "watch", "patch"] },
      { apiGroups: [group], resources: ["components", "groups"], verbs: ["get", "list", "watch", "create", "patch"] },
      { apiGroups: [group], resources: ["apps/status", "components/status", "groups/status"], verbs: ["patch"] },
      { apiGroups: [group], resources: ["apps/finalizers", "components/finalizers", "groups/finalizers"], verbs: ["update"] },
      { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
      {
        apiGroups: [""],
        resources: ["persistentvolumeclaims", "configmaps", "services"],
        verbs: ["get", "list", "watch", "create", "patch"],
      },
      { apiGroups: [""], resources: ["namespaces"], verbs: ["get", "create", "patch"] },
      // One Secret an App, named after it: Kubernetes cannot limit a rule to the end of a name.
      { apiGroups: [""], resources: ["secrets"], verbs: ["get", "create"] },
    ],
    controllers: () => [createAppController(agents), createComponentController(agents), createGroupController(agents, command)],
    servers: [
      pluginServer,
      {
        name: "agent-connections",
        start: () =>
          Promise.resolve({
            description: "connections to agents of Pods",
            stop: () => {
              agents.close();
              return Promise.resolve();
            },
          }),
      },
    ],
    commands: [...changeCommands, agentCommand],
  };
}

/** The middleware family. */
export const middleware: Operator = createMiddleware();

export { accessSecretName };
