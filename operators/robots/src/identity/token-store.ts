import { ignoreNotFound, isJsonObject } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { joinTokensSecret } from "../api/names.ts";
import { Secret } from "../api/secret.ts";

/** A one-time join token as the cluster stores it: without its secret. */
export interface StoredToken {
  readonly id: string;
  /** Public half of the key that is derived from the secret. */
  readonly publicKey: string;
  readonly createdAt: string;
  readonly expiresAt: string;
  /** Pin of the certificate authority that the token names. Unset: one of an earlier version, which could not replace its authority. */
  readonly authority?: string;
  /** The only robot that may join with it. */
  readonly robot?: string;
  /** Labels of the Robot: it gets them if the join creates it, and otherwise has to have them. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Whether the robot waits for `keelson robots approve`. */
  readonly requiresApproval?: boolean;
  /** The join that used the token. `robotUid`: uid of the Robot, so that the token does not admit another Robot of this name. */
  readonly used?: { readonly robot: string; readonly robotUid?: string; readonly keySha256: string; readonly at: string };
}

/** The tokens of a namespace and the version of the Secret that holds them. */
export interface StoredTokens {
  readonly tokens: readonly StoredToken[];
  readonly resourceVersion: string | undefined;
}

/** Where the tokens are. */
export interface TokenStoreOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly fieldManager: string;
  readonly signal?: AbortSignal;
}

/** Reads all tokens. Entries that are not valid are left out. */
export async function readTokens({ client, namespace, signal }: TokenStoreOptions): Promise<StoredTokens> {
  const options = signal === undefined ? {} : { signal };
  const secret = await ignoreNotFound(client.get(Secret, { namespace, name: joinTokensSecret }, options));
  const tokens = Object.entries(secret?.data ?? {}).flatMap(([id, data]) => {
    const token = parse(id, data);
    return token === undefined ? [] : [token];
  });
  return { tokens, resourceVersion: secret?.metadata.resourceVersion };
}

function parse(id: string, data: string): StoredToken | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(data, "base64").toString("utf8"));
    const isValid = isJsonObject(value) && typeof value.publicKey === "string" && typeof value.expiresAt === "string";
    return isValid ? { ...(value as unknown as StoredToken), id } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Writes tokens and removes others.
 *
 * **Errors**: rejects with a conflict if the Secret has changed since `resourceVersion`. Undefined: the Secret does not exist.
 */
export async function writeTokens(
  { client, namespace, fieldManager, signal }: TokenStoreOptions,
  { write = [], remove = [] }: { readonly write?: readonly StoredToken[]; readonly remove?: readonly string[] },
  resourceVersion: string | undefined,
): Promise<void> {
  const options = { fieldManager, ...(signal === undefined ? {} : { signal }) };
  const written = Object.fromEntries(write.map((token) => [token.id, Buffer.from(JSON.stringify(token)).toString("base64")]));
  if (resourceVersion === undefined) {
    const secret = { metadata: { name: joinTokensSecret, namespace }, type: "robot.k8s4r.io/join-tokens", data: written };
    await client.create(Secret, secret, options);
    return;
  }
  const data = { ...Object.fromEntries(remove.map((id) => [id, null])), ...written };
  const body = { metadata: { resourceVersion }, data };
  await client.patch(Secret, { namespace, name: joinTokensSecret }, { type: "merge", body }, options);
}

/** A robot that presents a token. */
export interface TokenHolder {
  readonly robotId: string;
  /** uid of the existing Robot. */
  readonly robotUid: string | undefined;
  readonly keySha256: string;
}

/** Why a token does not admit a robot with a key. Undefined if it does, also again after it admitted the same Robot with the same key. */
export function tokenProblem(
  token: StoredToken,
  { robotId, robotUid, keySha256 }: TokenHolder,
  now: number,
): string | undefined {
  const { used, robot } = token;
  if (used !== undefined) {
    const isSameRobot = used.robot === robotId && used.robotUid !== undefined && used.robotUid === robotUid;
    const isSame = isSameRobot && used.keySha256 === keySha256;
    return isSame ? undefined : `join token ${token.id} was used at ${used.at}`;
  }
  if (Date.parse(token.expiresAt) <= now) return `join token ${token.id} expired at ${token.expiresAt}`;
  return robot === undefined || robot === robotId ? undefined : `join token ${token.id} is for robot ${robot}`;
}
