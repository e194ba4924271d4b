import { fileURLToPath } from "node:url";
import { createCopyToolsCommand } from "@keelson/mpi/copy-tools";
import { runAgentCommands } from "./run-agent-commands.ts";

/* The program of the `mpi-worker` image, which has the program of a job's Pods alongside it. */
const program = fileURLToPath(new URL("./launch/pod-program.cjs", import.meta.url));
process.exit(await runAgentCommands({ name: "mpi" }, [createCopyToolsCommand(program)]));
