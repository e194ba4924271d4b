import { join } from "node:path";
import { agentProgram } from "../agent/agent-program-path.ts";
import type { AgentIsolation } from "../agent/run-agent.ts";
import type { AgentPlacement } from "../fleet/agent-pod.ts";

/** How agents run: as containers of Keelson's image in a cluster, otherwise from this installation. */
export function placementOf(dataDir: string, imageDir: string, isolation: AgentIsolation): AgentPlacement {
  const image = process.env.KEELSON_IMAGE;
  if (image) return { ...isolation, tools: { kind: "image", image } };
  const command = [process.execPath, agentProgram];
  return {
    ...isolation,
    tools: { kind: "local", command, dir: join(dataDir, "agents"), imageDir, volumeDir: join(dataDir, "volumes") },
  };
}
