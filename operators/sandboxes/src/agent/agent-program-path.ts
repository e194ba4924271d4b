import { fileURLToPath } from "node:url";

/** The agent as Node can run it: the built file, also where this module itself is run from its source. */
export const agentProgram = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../dist/agent/agent-program.js" : "./agent-program.js", import.meta.url),
);
