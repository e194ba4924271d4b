import { loadAgentCommand } from "@keelson/robots/agent";
import { runAgentCommands } from "./run-agent-commands.ts";

/* The program of the `robot-agent` image. */
process.exit(await runAgentCommands({ name: "robots" }, [await loadAgentCommand()]));
