import type { Operator } from "@keelson/operator";
import { group } from "./api/names.ts";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { sandboxCommands } from "./commands/commands.ts";
import { createSandboxController } from "./controllers/sandbox.ts";
import { createSandboxPoolController } from "./controllers/sandbox-pool.ts";
import { createSchemaGuard, guardedCrds } from "./controllers/schema-guard.ts";
import { fastPathServer } from "./fastpath/fastpath-definition.ts";

/** The sandboxes family: isolated programs that start in milliseconds, on pools of agents. */
export const sandboxes: Operator = {
  name: "sandboxes",
  commandName: "sandbox",
  description: "run untrusted code in sandboxes that start in milliseconds",
  resources: [Sandbox, SandboxPool],
  rules: [
    { apiGroups: [group], resources: ["sandboxes"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [group], resources: ["sandboxpools"], verbs: ["get", "list", "watch", "patch"] },
    { apiGroups: [group], resources: ["sandboxes/status", "sandboxpools/status"], verbs: ["patch"] },
    { apiGroups: [group], resources: ["sandboxpools/finalizers"], verbs: ["update"] },
    { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch", "create", "delete"] },
    // Reads the Secrets that variables refer to; creates and deletes one per agent, with its key.
    { apiGroups: [""], resources: ["secrets"], verbs: ["get", "create", "delete"] },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["get"] },
    // Restores the family's own CRDs.
    { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"], verbs: ["get", "list", "watch"] },
    {
      apiGroups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions"],
      resourceNames: [...guardedCrds],
      verbs: ["patch"],
    },
  ],
  controllers: ({ services }) => [
    createSandboxPoolController(services),
    createSandboxController(services),
    createSchemaGuard(),
  ],
  servers: [fastPathServer],
  commands: sandboxCommands,
};
