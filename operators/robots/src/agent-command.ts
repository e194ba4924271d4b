import { startAgent } from "./agent/agent.ts";
import { createAgentCommand } from "./commands/agent.ts";

/** `keelson robots agent`, without the rest of the operator: an agent runs on small machines. */
export const agentCommand = createAgentCommand(startAgent);
