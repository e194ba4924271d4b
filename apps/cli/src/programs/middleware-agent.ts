import { fileURLToPath } from "node:url";
import { createCopyAgentCommand } from "@keelson/middleware/copy-agent";
import { runAgentCommands } from "./run-agent-commands.ts";

/* The program of the `middleware-agent` image, which has the agent's program alongside it. */
const program = fileURLToPath(new URL("./middleware-agent-program.mjs", import.meta.url));
process.exit(await runAgentCommands({ name: "middleware", commandName: "app" }, [createCopyAgentCommand(program)]));
