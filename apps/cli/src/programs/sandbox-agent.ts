import { agentCommand } from "@keelson/sandboxes/agent";
import { runAgentCommands } from "./run-agent-commands.ts";

/* The program of the `sandbox-agent` image. */
process.exit(await runAgentCommands({ name: "sandboxes", commandName: "sandbox" }, [agentCommand]));
