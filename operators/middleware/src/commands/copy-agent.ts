import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { CommandDefinition } from "@keelson/operator";
import { copyNode } from "@keelson/operator/portable-node";
import { agentProgramFile } from "../controllers/agent-program.ts";

/**
 * `keelson middleware copy-agent DIR`: copies the agent's program into a directory, with Node.js, its libraries and its loader, so that it runs in
 * any image of the same architecture. `program` is the path of the program in one file.
 */
export function createCopyAgentCommand(program: string): CommandDefinition {
  return {
    name: "copy-agent",
    isInternal: true,
    description: "copy the agent's program into a directory (for init containers)",
    args: ["DIR"],
    run({ args }) {
      const [folder = ""] = args;
      mkdirSync(folder, { recursive: true });
      copyNode(folder);
      copyFileSync(program, join(folder, agentProgramFile));
      return Promise.resolve(0);
    },
  };
}
