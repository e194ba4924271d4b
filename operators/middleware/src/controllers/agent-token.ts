import { ignoreNotFound, isNotFound } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { App } from "../api/app.ts";
import { accessSecretName } from "../api/names.ts";
import { AgentCallError } from "./agent-call-error.ts";

/** Reads the token of an App's agents from its Secret. */
export async function readAgentToken(
  client: Pick<Client, "get">,
  namespace: string | undefined,
  app: string,
  signal?: AbortSignal,
): Promise<string> {
  const secret = await client.get(Secret, { namespace, name: accessSecretName(app) }, signal ? { signal } : {});
  const token = secret.data?.agentToken;
  if (token === undefined) throw new AgentCallError("NoToken", `Secret ${accessSecretName(app)}: data.agentToken: required`);
  return Buffer.from(token, "base64").toString("utf8");
}

/** Like {@link readAgentToken}; undefined if the Secret is missing because its App is deleted, which deletes the Groups and Pods too. */
export async function findAgentToken(
  client: Pick<Client, "get">,
  namespace: string | undefined,
  app: string,
  signal?: AbortSignal,
): Promise<string | undefined> {
  try {
    return await readAgentToken(client, namespace, app, signal);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const owner = await ignoreNotFound(client.get(App, { namespace, name: app }, signal ? { signal } : {}));
    if (owner === undefined || owner.metadata.deletionTimestamp !== undefined) return undefined;
    throw error;
  }
}
