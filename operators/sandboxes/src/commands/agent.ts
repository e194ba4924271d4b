import { readFile } from "node:fs/promises";
import { closeInheritedDescriptors } from "@keelson/execution/descriptors";
import type { CommandDefinition } from "@keelson/operator";
import { agentSettings, defaultAgentDir } from "../agent/agent-settings.ts";
import { agentDrivers } from "../agent/agent-drivers.ts";
import { runAgent } from "../agent/run-agent.ts";
import { agentPort, defaultSandboxesPerAgent } from "../api/names.ts";

/** `keelson sandbox agent`: the program of an agent's Pod. Flags fall back to the variables of {@link agentSettings}. */
export const agentCommand: CommandDefinition = {
  name: "agent",
  description: "run an agent that starts sandboxes on this machine for the operator",
  usesCluster: false,
  flags: [
    {
      name: "agent-port",
      value: "PORT",
      description: "port of the agent's API; 0 picks a free one",
      default: String(agentPort),
      env: "AGENT_PORT",
    },
    {
      name: "bind-address",
      value: "ADDRESS",
      description: "listen address of the agent's API",
      default: "127.0.0.1",
      env: "POD_IP",
    },
    {
      name: "capacity",
      value: "COUNT",
      description: "maximum number of sandboxes",
      default: String(defaultSandboxesPerAgent),
      env: "AGENT_CAPACITY",
    },
    { name: "agent-name", value: "NAME", description: "name of the agent (default: the host name)", env: "POD_NAME" },
    { name: "node-name", value: "NAME", description: "name of the node (default: the host name)", env: "NODE_NAME" },
    { name: "agent-token-file", value: "FILE", description: "file with the key shared with the operator (or: $AGENT_TOKEN)" },
    {
      name: "agent-dir",
      value: "DIR",
      description: "directory of the sandboxes",
      default: defaultAgentDir,
      env: "AGENT_DIR",
    },
    {
      name: "image-dir",
      value: "DIR",
      description: "directory of the images (default: below --agent-dir)",
      env: "AGENT_IMAGE_DIR",
    },
    {
      name: "driver",
      value: "NAME",
      description: `isolation of sandboxes: ${agentDrivers.join(", ")}`,
      default: "bubblewrap",
      env: "AGENT_DRIVER",
    },
  ],
  async run(context) {
    closeInheritedDescriptors();
    const { clock, log, signal, stdout, stderr } = context;
    const flag = (name: string): string | undefined => {
      const value = context.flags[name];
      return typeof value === "string" && value !== "" ? value : undefined;
    };
    try {
      const tokenFile = flag("agent-token-file");
      const settings = agentSettings({
        ...process.env,
        AGENT_PORT: flag("agent-port"),
        AGENT_CAPACITY: flag("capacity"),
        AGENT_DIR: flag("agent-dir"),
        AGENT_IMAGE_DIR: flag("image-dir"),
        AGENT_DRIVER: flag("driver"),
        AGENT_TOKEN: tokenFile === undefined ? process.env.AGENT_TOKEN : (await readFile(tokenFile, "utf8")).trim(),
        POD_NAME: flag("agent-name"),
        POD_IP: flag("bind-address"),
        NODE_NAME: flag("node-name"),
      });
      await runAgent({ ...settings, clock, log, onReady: (url) => void stdout.write(`agent on ${url}\n`) }, signal);
      return 0;
    } catch (error) {
      stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      return 1;
    }
  },
};
