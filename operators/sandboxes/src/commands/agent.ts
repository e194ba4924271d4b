import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import type { CommandDefinition } from "@keelson/controller";
import { createBubblewrapDriver } from "@keelson/execution";
import { startAgentServer } from "../agent/agent-server.ts";
import { openImageFolder } from "../agent/image-folder.ts";
import { createSandboxManager } from "../agent/sandbox-manager.ts";
import { defaultSandboxesPerAgent } from "../api/names.ts";
import { CommandError, textFlag } from "./connection.ts";

/** `keelson sandbox agent`: what runs in an agent's Pod. Flags fall back to the original's environment variables. */
export const agentCommand: CommandDefinition = {
  name: "agent",
  description: "run an agent: start sandboxes on this machine for an operator that has the token",
  flags: [
    {
      name: "agent-port",
      value: "PORT",
      description: "port of its API; 0 picks a free one",
      default: "5758",
      env: "AGENT_PORT",
    },
    { name: "bind-address", value: "ADDRESS", description: "address of its API", default: "127.0.0.1" },
    {
      name: "capacity",
      value: "COUNT",
      description: "sandboxes that it takes",
      default: String(defaultSandboxesPerAgent),
      env: "AGENT_CAPACITY",
    },
    { name: "agent-name", value: "NAME", description: "its name (default: the host's)", env: "POD_NAME" },
    { name: "node-name", value: "NAME", description: "its node (default: the host's name)", env: "NODE_NAME" },
    { name: "agent-token-file", value: "FILE", description: "file with the token that callers need", required: true },
    {
      name: "agent-dir",
      value: "DIR",
      description: "where sandboxes and images are kept",
      default: "/var/lib/keelson/sandboxes",
    },
  ],
  async run(context) {
    const { clock, log, signal, stdout, stderr } = context;
    try {
      const dir = textFlag(context, "agent-dir") ?? "";
      const token = (await readFile(textFlag(context, "agent-token-file") ?? "", "utf8")).trim();
      if (token === "") throw new CommandError("--agent-token-file: is empty");
      // The original writes its port as an address without a host, ":5758".
      const port = Number((textFlag(context, "agent-port") ?? "").replace(/^:/, ""));
      if (!(Number.isInteger(port) && port >= 0 && port <= 65535)) throw new CommandError("--agent-port: has to be 0 to 65535");
      const capacity = Number(textFlag(context, "capacity"));
      if (!(Number.isInteger(capacity) && capacity >= 1))
        throw new CommandError("--capacity: has to be a whole number above 0");
      const driver = await createBubblewrapDriver({ dir: join(dir, "programs"), clock, random: Math.random });
      const manager = createSandboxManager({
        agentId: textFlag(context, "agent-name") ?? hostname(),
        nodeName: textFlag(context, "node-name") ?? hostname(),
        capacity,
        driver,
        images: await openImageFolder(join(dir, "images")),
        clock,
      });
      const bindAddress = textFlag(context, "bind-address") ?? "127.0.0.1";
      const server = await startAgentServer({ manager, token, port, bindAddress, clock, log });
      stdout.write(`agent on ${server.url}\n`);
      if (!signal.aborted)
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      await server.close();
      await driver.close();
      return 0;
    } catch (error) {
      stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      return error instanceof CommandError ? 2 : 1;
    }
  },
};
