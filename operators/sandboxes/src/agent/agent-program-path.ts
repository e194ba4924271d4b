import { fileURLToPath } from "node:url";

/** Path of the built agent program, even if this module runs from its source. */
export const agentProgram = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../dist/agent/agent-program.js" : "./agent-program.js", import.meta.url),
);
