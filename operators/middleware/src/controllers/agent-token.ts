import { Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { accessSecretName } from "../api/names.ts";

/** The token that the agents of an App want to see. */
export async function readAgentToken(
  client: Client,
  namespace: string | undefined,
  app: string,
  signal?: AbortSignal,
): Promise<string> {
  const secret = await client.get(Secret, { namespace, name: accessSecretName(app) }, signal ? { signal } : {});
  const token = secret.data?.agentToken;
  if (token === undefined) throw new Error(`the Secret ${accessSecretName(app)} has no data.agentToken`);
  return Buffer.from(token, "base64").toString("utf8");
}
