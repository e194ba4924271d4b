import { hostname } from "node:os";
import { isPositiveQuantity } from "../protocol/protocol.ts";
import { agentPort, defaultSandboxesPerAgent } from "../api/names.ts";
import { maxWarmPerImage, maxWarmShells } from "../api/sandbox-pool.ts";
import { type AgentDriver, agentDrivers } from "./agent-drivers.ts";
import type { AgentOptions } from "./run-agent.ts";

/** Default directory of an agent's sandboxes. */
export const defaultAgentDir = "/var/lib/keelson/sandboxes";

/**
 * An agent's settings from its environment: the original's names (AGENT_PORT, also as `:5758`, AGENT_CAPACITY, CONTAINERD_SOCKET, POD_NAME,
 * POD_IP, NODE_NAME) and ours (AGENT_TOKEN, AGENT_DIR, AGENT_IMAGE_DIR, AGENT_VOLUME_DIR, AGENT_DRIVER, AGENT_MAX_PROCESSES,
 * AGENT_SANDBOX_CPU, AGENT_SANDBOX_MEMORY, AGENT_WARM_SHELLS, AGENT_WARM_PER_IMAGE). Throws an error that names the variable.
 */
export function agentSettings(
  env: Readonly<Record<string, string | undefined>>,
): Omit<AgentOptions, "clock" | "log" | "onReady"> {
  const read = (name: string): string | undefined => (env[name] === "" ? undefined : env[name]);
  const port = Number((read("AGENT_PORT") ?? String(agentPort)).replace(/^:/, ""));
  if (!(Number.isInteger(port) && port >= 0 && port <= 65535))
    throw new Error(`AGENT_PORT: ${JSON.stringify(env.AGENT_PORT)} must be 0 to 65535`);
  const capacity = Number(read("AGENT_CAPACITY") ?? defaultSandboxesPerAgent);
  if (!(Number.isInteger(capacity) && capacity >= 1))
    throw new Error(`AGENT_CAPACITY: ${JSON.stringify(env.AGENT_CAPACITY)} must be a positive integer`);
  const maxProcesses = read("AGENT_MAX_PROCESSES");
  if (maxProcesses !== undefined && !/^[1-9]\d{0,6}$/.test(maxProcesses))
    throw new Error(`AGENT_MAX_PROCESSES: ${JSON.stringify(maxProcesses)} must be a positive integer`);
  const [cpu, memory] = ["AGENT_SANDBOX_CPU", "AGENT_SANDBOX_MEMORY"].map((name) => {
    const amount = read(name);
    if (amount !== undefined && !isPositiveQuantity(amount))
      throw new Error(`${name}: ${JSON.stringify(amount)} must be a positive quantity, such as 500m or 256Mi`);
    return amount;
  });
  const [shells = 0, perImage = 0] = (
    [
      ["AGENT_WARM_SHELLS", maxWarmShells],
      ["AGENT_WARM_PER_IMAGE", maxWarmPerImage],
    ] as const
  ).map(([name, maximum]) => {
    const count = Number(read(name) ?? 0);
    if (!(Number.isInteger(count) && count >= 0 && count <= maximum))
      throw new Error(`${name}: ${JSON.stringify(env[name])} must be 0 to ${maximum}`);
    return count;
  });
  const token = read("AGENT_TOKEN");
  if (token === undefined) throw new Error("AGENT_TOKEN: required; it is the key shared with the operator");
  const driver = read("AGENT_DRIVER") ?? "bubblewrap";
  if (!isAgentDriver(driver)) throw new Error(`AGENT_DRIVER: ${JSON.stringify(driver)} must be ${agentDrivers.join(" or ")}`);
  const containerdSocket = read("CONTAINERD_SOCKET");
  if (containerdSocket !== undefined && !containerdSocket.startsWith("/"))
    throw new Error(`CONTAINERD_SOCKET: ${JSON.stringify(containerdSocket)} must be an absolute path`);
  const imageDir = read("AGENT_IMAGE_DIR");
  const volumeDir = read("AGENT_VOLUME_DIR");
  return {
    name: read("POD_NAME") ?? hostname(),
    node: read("NODE_NAME") ?? hostname(),
    capacity,
    token,
    bindAddress: read("POD_IP") ?? "127.0.0.1",
    port,
    dir: read("AGENT_DIR") ?? defaultAgentDir,
    ...(imageDir !== undefined && { imageDir }),
    ...(volumeDir !== undefined && { volumeDir }),
    driver,
    ...(containerdSocket !== undefined && { containerdSocket }),
    ...((cpu ?? memory) !== undefined && {
      defaultLimits: { ...(cpu !== undefined && { cpu }), ...(memory !== undefined && { memory }) },
    }),
    ...(maxProcesses !== undefined && { maxProcesses: Number(maxProcesses) }),
    ...(shells + perImage > 0 && { warm: { shells, perImage } }),
  };
}

const isAgentDriver = (text: string): text is AgentDriver => agentDrivers.some((driver) => driver === text);
