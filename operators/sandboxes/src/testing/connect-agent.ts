import { Pod, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type AgentClient, createAgentClient } from "../fleet/agent-client.ts";
import { parseAgentPod, readToken } from "../fleet/agent-pod.ts";

/** A client of the agent in a Pod, with the agent's own key. */
export async function connectAgent(client: Client, namespace: string, name: string): Promise<AgentClient> {
  const agent = parseAgentPod(await client.get(Pod, { namespace, name }));
  const secret = await client.get(Secret, { namespace, name: agent?.secret ?? "" });
  return createAgentClient({ url: agent?.url ?? "", token: readToken(secret) }, systemClock);
}
