import { accessReviewRules } from "@keelson/controller/access";
import type { Operator } from "@keelson/operator";
import { agentPort, group } from "./api/names.ts";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { sandboxCommands } from "./commands/commands.ts";
import { createSandboxController } from "./controllers/sandbox.ts";
import { createSandboxPoolController } from "./controllers/sandbox-pool.ts";
import { SandboxVolume } from "./api/sandbox-volume.ts";
import { createVolumeController } from "./controllers/sandbox-volume.ts";
import { createSchemaGuard, guardedCrds } from "./controllers/schema-guard.ts";
import { fastPathServer } from "./fastpath/fastpath-definition.ts";
import { sandboxesMonitoring } from "./monitoring/sandboxes-monitoring.ts";

/** The sandboxes family: isolated programs that start in milliseconds, on pools of agents. */
export const sandboxes: Operator = {
  name: "sandboxes",
  commandName: "sandbox",
  description: "run untrusted code in sandboxes that start in milliseconds",
  resources: [Sandbox, SandboxPool, SandboxVolume],
  rules: [
    { apiGroups: [group], resources: ["sandboxes"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [group], resources: ["sandboxpools"], verbs: ["get", "list", "watch", "patch"] },
    { apiGroups: [group], resources: ["sandboxvolumes"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [group], resources: ["sandboxes/status", "sandboxpools/status", "sandboxvolumes/status"], verbs: ["patch"] },
    { apiGroups: [group], resources: ["sandboxpools/finalizers"], verbs: ["update"] },
    { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch", "create", "delete"] },
    // Reads the Secrets that variables refer to; creates and deletes one per agent, with its key.
    { apiGroups: [""], resources: ["secrets"], verbs: ["get", "create", "delete"] },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["get"] },
    // Authenticates and authorizes callers of the fast path.
    ...accessReviewRules,
    // Restores the family's own CRDs.
    { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"], verbs: ["get", "list", "watch"] },
    {
      apiGroups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions", "customresourcedefinitions/status"],
      resourceNames: [...guardedCrds],
      verbs: ["patch"],
    },
  ],
  userRules: {
    view: [{ apiGroups: [group], resources: ["sandboxes/log"], verbs: ["get"] }],
    edit: [
      { apiGroups: [group], resources: ["sandboxes/exec"], verbs: ["get", "create"] },
      { apiGroups: [group], resources: ["sandboxes/files"], verbs: ["get", "update"] },
      { apiGroups: [group], resources: ["sandboxes/portforward"], verbs: ["create"] },
    ],
  },
  controllers: ({ services }) => [
    createSandboxPoolController(services),
    createSandboxController(services),
    createVolumeController(services),
    createSchemaGuard(),
  ],
  servers: [fastPathServer],
  commands: sandboxCommands,
  listeners: [
    {
      name: "gRPC server of sandboxes",
      address: "`127.0.0.1:9090` (`--fastpath-bind-address`, `--fastpath-port`)",
      authentication:
        "on loopback: the bearer token in `DIR/sandboxes/fastpath-token`; over TLS (always beyond loopback, else `--fastpath-tls`): tokens and client certificates of the cluster",
      permissions:
        "with the bearer token, all sandboxes; users of the cluster: RBAC on `sandboxes` and its subresources, per call",
    },
    {
      name: "Metrics of the gRPC server",
      address: "none; port `--fastpath-metrics-port` of the same address",
      authentication: "the bearer token of the gRPC server",
      permissions: "read; probes need no token",
    },
    {
      name: "Sandbox agents",
      address: `port ${agentPort} of the Pod's address`,
      authentication: "TLS with a pre-shared key per agent",
      permissions: "that agent's sandboxes",
    },
    {
      name: "HTTP proxy to ports of sandboxes",
      address: "none; port `--sandbox-proxy-port` of `127.0.0.1` (`--sandbox-proxy-bind-address`), with TLS beyond loopback",
      authentication:
        "a signed URL or its cookie, per port; on loopback the bearer token of the gRPC server; over TLS bearer tokens of the cluster",
      permissions:
        "HTTP to exposed ports of running sandboxes: one port with a signature, else RBAC `create` on `sandboxes/portforward`",
    },
    {
      name: "Exposed ports of sandboxes",
      address: "the ports in `spec.exposedPorts`, on the agent's address",
      authentication: "that of the program in the sandbox",
      permissions: "that program",
    },
  ],
  monitoring: sandboxesMonitoring,
  deployment: {
    ports: [
      {
        name: "fastpath",
        port: 9090,
        bindAddressFlag: "fastpath-bind-address",
        portFlag: "fastpath-port",
        appProtocol: "kubernetes.io/h2c",
      },
    ],
    settings: [
      { name: "driver", flag: "sandbox-driver" },
      { name: "containerdSocket", flag: "sandbox-containerd-socket" },
      { name: "consistencyMode", flag: "fastpath-consistency-mode" },
      { name: "orphanTimeout", flag: "fastpath-orphan-timeout" },
    ],
    singleReplicaReason: "the fast path runs on the leader, which a Service cannot select",
    toolImage: { variable: "KEELSON_IMAGE", name: "sandbox-agent" },
  },
};
