import { choiceFlag, durationFlag, type FlagValues, invalidFlag, pairsFlag, portFlag, textFlag } from "@keelson/operator/flags";
import { agentDrivers } from "../agent/agent-drivers.ts";
import type { AgentIsolation } from "../agent/run-agent.ts";

/** Flags of the fast path's server. */
export const fastPathFlags = {
  bindAddress: textFlag({
    name: "fastpath-bind-address",
    value: "ADDRESS",
    description: "listen address of the sandboxes' gRPC server",
    default: "127.0.0.1",
  }),
  port: portFlag({
    name: "fastpath-port",
    description: "port of the gRPC server; 0 picks a free one",
    default: "9090",
    endpoint: "fastpath",
  }),
  metricsPort: portFlag({
    name: "fastpath-metrics-port",
    description:
      "port of the gRPC server's metrics, on its address and with its token (default: disabled; the original uses 9091)",
    endpoint: "fastpath-metrics",
  }),
  mode: choiceFlag({
    name: "fastpath-consistency-mode",
    value: "MODE",
    description: "default consistency mode of creates: fast (agent first) or strong (API first)",
    choices: ["fast", "strong"],
    default: "fast",
  }),
  orphanTimeout: durationFlag({
    name: "fastpath-orphan-timeout",
    description: "minimum age of a sandbox without an object before it is deleted",
    default: "10s",
    bareUnit: "s",
  }),
  image: pairsFlag({
    name: "sandbox-image",
    value: "NAME=FILE",
    description: "unpack an OCI archive at start-up under this name (repeatable)",
  }),
  driver: choiceFlag({
    name: "sandbox-driver",
    value: "NAME",
    description: "isolation of sandboxes: bubblewrap, containerd, or process (none)",
    choices: agentDrivers,
    default: "bubblewrap",
  }),
  containerdSocket: textFlag({
    name: "sandbox-containerd-socket",
    value: "PATH",
    description: "containerd's socket on the agents' machines (default: /run/containerd/containerd.sock)",
  }),
} as const;

/** The isolation that the flags select. **Errors**: `UsageError`. */
export function readIsolation(flags: FlagValues): AgentIsolation {
  const driver = fastPathFlags.driver.read(flags);
  const containerdSocket = fastPathFlags.containerdSocket.read(flags);
  if (containerdSocket === undefined) return { driver };
  if (driver !== "containerd") {
    throw invalidFlag(fastPathFlags.containerdSocket, containerdSocket, "requires --sandbox-driver containerd");
  }
  if (!containerdSocket.startsWith("/")) {
    throw invalidFlag(fastPathFlags.containerdSocket, containerdSocket, "must be an absolute path");
  }
  return { driver, containerdSocket };
}
