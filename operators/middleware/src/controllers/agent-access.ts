import { ignoreNotFound, isNotFound } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { type AgentIdentity, tlsModeOf } from "@keelson/middleware-agent";
import { App } from "../api/app.ts";
import { accessSecretName, agentKeys } from "../api/names.ts";
import { AgentCallError } from "./agent-call-error.ts";

/** How controllers authenticate at the agents of an App. */
export interface AgentAccess {
  readonly token: string;
  /** Undefined: without TLS. */
  readonly identity?: AgentIdentity;
}

/** What an access Secret says about agents. Undefined if it has no token. */
export function agentAccessOf(data: Readonly<Record<string, string>> | undefined): AgentAccess | undefined {
  const read = (key: string): string => Buffer.from(data?.[key] ?? "", "base64").toString("utf8");
  const token = read("agentToken");
  if (token === "") return undefined;
  const mode = tlsModeOf(read(agentKeys.mode));
  if (mode === undefined) return { token };
  const [authorities, certificate, key] = [read(agentKeys.authorities), read(agentKeys.certificate), read(agentKeys.key)];
  return { token, identity: { mode, authorities, certificate, key } };
}

/** Reads the access to an App's agents from its Secret. */
export async function readAgentAccess(
  client: Pick<Client, "get">,
  namespace: string | undefined,
  app: string,
  signal?: AbortSignal,
): Promise<AgentAccess> {
  const secret = await client.get(Secret, { namespace, name: accessSecretName(app) }, signal ? { signal } : {});
  const access = agentAccessOf(secret.data);
  if (access === undefined) throw new AgentCallError("NoToken", `Secret ${accessSecretName(app)}: data.agentToken: required`);
  return access;
}

/** Like {@link readAgentAccess}; undefined if the Secret is missing because its App is deleted, which deletes the Groups and Pods too. */
export async function findAgentAccess(
  client: Pick<Client, "get">,
  namespace: string | undefined,
  app: string,
  signal?: AbortSignal,
): Promise<AgentAccess | undefined> {
  try {
    return await readAgentAccess(client, namespace, app, signal);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const owner = await ignoreNotFound(client.get(App, { namespace, name: app }, signal ? { signal } : {}));
    if (owner === undefined || owner.metadata.deletionTimestamp !== undefined) return undefined;
    throw error;
  }
}
