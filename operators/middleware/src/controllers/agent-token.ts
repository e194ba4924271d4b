import { Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { accessSecretName } from "../api/names.ts";
import { AgentCallError } from "./agent-call-error.ts";

/** Reads the token of an App's agents from its Secret. */
export async function readAgentToken(
  client: Client,
  namespace: string | undefined,
  app: string,
  signal?: AbortSignal,
): Promise<string> {
  const secret = await client.get(Secret, { namespace, name: accessSecretName(app) }, signal ? { signal } : {});
  const token = secret.data?.agentToken;
  if (token === undefined) throw new AgentCallError("NoToken", `Secret ${accessSecretName(app)}: data.agentToken: required`);
  return Buffer.from(token, "base64").toString("utf8");
}
