import { currentBundle } from "@keelson/operator/bundle";
import type { CommandDefinition } from "@keelson/operator";
import type * as AgentModule from "./agent-command.ts";

/**
 * Loads `keelson robots agent` without the rest of the operator, because agents run on small machines. The bundle of the agent alone has less
 * code in memory than the one of the whole command line, whose parts are shared. Without a current bundle, the packages are loaded.
 */
export async function loadAgentCommand(): Promise<CommandDefinition> {
  const bundle =
    process.env.KEELSON_BUNDLE === "off" ? undefined : currentBundle(new URL("./bundle/", import.meta.url), "agent-command.js");
  const module: typeof AgentModule = await (bundle === undefined ? import("./agent-command.ts") : import(bundle));
  return module.agentCommand;
}
