import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { ControllerDefinition } from "@keelson/controller";
import { type FlagValues, type ListenerDescription, type Operator } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import type { OperatorMonitoring } from "@keelson/operator/monitoring";
import { createAgentCommand, type PluginDefinition } from "@keelson/middleware-agent";
import { createAgentClient } from "./agent/agent-client.ts";
import { redisAgent } from "./agent/redis-agent.ts";
import { App } from "./api/app.ts";
import { Backup } from "./api/backup.ts";
import { BackupSchedule } from "./api/backup-schedule.ts";
import { Component } from "./api/component.ts";
import { Group } from "./api/group.ts";
import { group } from "./api/names.ts";
import { Restore } from "./api/restore.ts";
import { backupCommands } from "./commands/backup.ts";
import { certificatesCommand } from "./commands/certificates.ts";
import { listCommand } from "./commands/list.ts";
import { changeCommands } from "./commands/changes/changes.ts";
import { usersCommand } from "./commands/users.ts";
import { transferCommand } from "./commands/transfer.ts";
import { createAppController } from "./controllers/app/app.ts";
import { createBackupController } from "./controllers/backup/backup.ts";
import { createCertificateController } from "./controllers/certificates/certificates.ts";
import { createComponentController } from "./controllers/component/component.ts";
import { createCredentialController } from "./controllers/credentials/credentials.ts";
import { createGroupController } from "./controllers/group/group.ts";
import { createRestoreController } from "./controllers/restore/restore.ts";
import { createScheduleController } from "./controllers/schedule/schedule.ts";
import { appAlerts, appPanels, appVariables } from "./monitoring/app-monitoring.ts";
import { controllerFlags, operatorFlags } from "./flags.ts";
import { createMonitoringServer } from "./monitoring/monitoring-server.ts";
import type { MiddlewareServices } from "./controllers/services.ts";
import { PluginReader } from "./plugin/plugin-reader.ts";
import { createCopyAgentCommand } from "./commands/copy-agent.ts";
import { withAgentProgram } from "./controllers/agent-program.ts";
import { createPluginWebhook } from "./plugin/plugin-webhook.ts";
import { redisPlugin } from "./plugin/redis-plugin.ts";
import { type ControllerSettings, defaultControllerSettings, readControllerSettings } from "./settings/controller-settings.ts";
import { createPluginServer } from "./plugin-server.ts";

/** Options of {@link createMiddleware}. */
export interface MiddlewareOptions {
  /** Command line of the agent in Pods, without flags. Default: `keelson middleware agent`. */
  readonly agentCommand?: readonly string[];
  /** Plugins to install in addition to that of Redis and Valkey. The agent command must know their engines. */
  readonly plugins?: readonly PluginDefinition[];
  /**
   * Path of the agent's program in one file: `agent` and `transfer` are its first arguments. In a cluster, where KEELSON_IMAGE is set, an init
   * container with that image copies it into Pods, whose images then need not contain it. Default: the images contain it.
   */
  readonly agentProgram?: string;
  /** Command line of the Pods that transfer backups, without flags. Default: the agent command with `transfer` instead of `agent`. */
  readonly transferCommand?: readonly string[];
}

const listeners: readonly ListenerDescription[] = [
  {
    name: "Middleware agents",
    address: "port 50052 of the Pod's address",
    authentication: "a bearer token per App; with spec.tls, also certificates of the App's agents (TLS 1.3)",
    permissions: "that Pod's program",
  },
  {
    name: "Admission webhook of middleware",
    address: "a free port of `127.0.0.1`; in a cluster port 9443 of the operator's Pod",
    authentication:
      "TLS; under `keelson up` the client certificate of the API server. In a cluster a secret key in the path under which the webhook is registered, or with `--webhook-client-ca` a client certificate, which kube-apiserver presents only if it is configured to",
    permissions: "check the ConfigMap in the request; nothing is read or changed",
  },
  {
    name: "Sentinel protocol of middleware",
    address: "port 26379 of the Pod's address",
    authentication: "the App's password",
    permissions: "the addresses of the App's servers",
  },
  {
    name: "Snapshots of middleware",
    address: "a free port of the Pod's address, while a backup is loaded",
    authentication: "the App's password",
    permissions: "the data of the backup",
  },
  {
    name: "Middleware",
    address: "the App's port of the Pod's address",
    authentication: "the App's password",
    permissions: "the data of the App",
  },
];

const rules: readonly PolicyRule[] = [
  { apiGroups: [group], resources: ["apps"], verbs: ["get", "list", "watch", "create", "patch"] },
  { apiGroups: [group], resources: ["components", "groups"], verbs: ["get", "list", "watch", "create", "patch"] },
  { apiGroups: [group], resources: ["apps/status", "components/status", "groups/status"], verbs: ["patch"] },
  { apiGroups: [group], resources: ["backups", "restores"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
  { apiGroups: [group], resources: ["backupschedules"], verbs: ["get", "list", "watch", "patch"] },
  { apiGroups: [group], resources: ["backups/status", "backupschedules/status", "restores/status"], verbs: ["patch"] },
  {
    apiGroups: [group],
    resources: ["backups/finalizers", "backupschedules/finalizers", "restores/finalizers"],
    verbs: ["update"],
  },
  { apiGroups: [group], resources: ["apps/finalizers", "components/finalizers", "groups/finalizers"], verbs: ["update"] },
  { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
  {
    apiGroups: [""],
    resources: ["persistentvolumeclaims", "configmaps", "services"],
    verbs: ["get", "list", "watch", "create", "patch"],
  },
  // Volumes of scratch Apps, and of deleted Apps by spec.deletionPolicy.
  { apiGroups: [""], resources: ["persistentvolumeclaims"], verbs: ["delete"] },
  { apiGroups: [""], resources: ["namespaces"], verbs: ["get", "create", "patch"] },
  // Secrets of Apps and their users. RBAC cannot match a name suffix. Only metadata is listed and watched.
  { apiGroups: [""], resources: ["secrets"], verbs: ["get", "list", "watch", "create", "patch"] },
];

function createControllers(services: MiddlewareServices): readonly ControllerDefinition[] {
  return [
    createAppController(services),
    createComponentController(services),
    createGroupController(services),
    createBackupController(services),
    createRestoreController(services),
    createScheduleController(services),
    createCredentialController(services),
    createCertificateController(services),
  ];
}

/** The settings in the file of the flag, or the defaults. Throws a `UsageError` that names the field. */
function settingsOf(flags: FlagValues): ControllerSettings {
  const file = controllerFlags.config.read(flags);
  if (file === undefined) return defaultControllerSettings;
  try {
    return readControllerSettings(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UsageError(`--${controllerFlags.config.name}: ${file}: ${(error as Error).message}`);
  }
}

/** The dashboard and the alert rules of Apps, and those of the programs of plugins. */
function monitoringOf(plugins: readonly PluginDefinition[]): OperatorMonitoring {
  return {
    variables: appVariables,
    panels: [...appPanels, ...plugins.flatMap(({ monitoring }) => monitoring?.panels ?? [])],
    alerts: [...appAlerts, ...plugins.flatMap(({ monitoring }) => monitoring?.alerts ?? [])],
  };
}

/** Creates the middleware operator. */
export function createMiddleware({
  agentCommand: command = ["keelson", "middleware", "agent"],
  agentProgram,
  plugins = [],
  transferCommand: transfer = [...(command.at(-1) === "agent" ? command.slice(0, -1) : command), "transfer"],
}: MiddlewareOptions = {}): Operator {
  const agents = createAgentClient();
  const services: Omit<MiddlewareServices, "settings"> = {
    agents,
    plugins: new PluginReader(),
    agentCommand: command,
    transferCommand: transfer,
    completePod: (pod) => {
      const image = process.env.KEELSON_IMAGE;
      return agentProgram === undefined || !image ? pod : withAgentProgram(pod, { command: command.slice(0, -1), image });
    },
    generateSecret: () => randomBytes(24).toString("base64url"),
  };
  return {
    name: "middleware",
    commandName: "app",
    description: "run stateful middleware and change it without losing data",
    resources: [App, Component, Group, Backup, BackupSchedule, Restore],
    rules,
    flags: operatorFlags,
    controllers: ({ flags }) => createControllers({ ...services, settings: settingsOf(flags) }),
    webhooks: [createPluginWebhook(command)],
    servers: [
      createPluginServer([redisPlugin, ...plugins]),
      createMonitoringServer(agents),
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
    commands: [
      listCommand,
      ...changeCommands,
      usersCommand,
      certificatesCommand,
      ...backupCommands,
      createAgentCommand([redisAgent, ...plugins.flatMap(({ engines }) => engines)]),
      transferCommand,
      ...(agentProgram === undefined ? [] : [createCopyAgentCommand(agentProgram)]),
    ],
    ...(agentProgram === undefined ? {} : { deployment: { toolImage: { variable: "KEELSON_IMAGE" } } }),
    listeners,
    monitoring: monitoringOf([redisPlugin, ...plugins]),
  };
}

/** The middleware family. */
export const middleware: Operator = createMiddleware();
