import { ignoreNotFound } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { identitySecret } from "../../api/names.ts";
import { Secret } from "../../api/secret.ts";
import { retryOnConflict } from "../retry-on-conflict.ts";
import { type AuthorityState, currentAuthorityState, parseAuthorityState } from "./authority-state.ts";
import { RobotAuthority } from "./robot-authority.ts";

/** Where the authority is stored. */
export interface AuthorityStoreOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly fieldManager: string;
}

/**
 * Loads the authority from its Secret. Creates what is missing, renews the broker's certificate a year before it expires, and
 * replaces the key that signs messages when it is 90 days old.
 *
 * **Errors**: rejects if the Secret cannot be read or written, also because of a concurrent write, or is damaged.
 */
export async function ensureRobotAuthority(options: AuthorityStoreOptions & { readonly now: number }): Promise<RobotAuthority> {
  const { stored, resourceVersion } = await readState(options);
  const state = await currentAuthorityState(stored, options.now);
  if (state !== stored) await writeState(options, state, resourceVersion);
  return new RobotAuthority(state);
}

/** Loads the authority. Undefined if the operator has not created it yet. **Errors**: as {@link ensureRobotAuthority}. */
export async function readRobotAuthority(
  client: Client,
  namespace: string,
  signal?: AbortSignal,
): Promise<RobotAuthority | undefined> {
  const { stored } = await readState({ client, namespace, ...(signal === undefined ? {} : { signal }) });
  return stored === undefined ? undefined : new RobotAuthority(stored);
}

/**
 * Changes the authority in one write. `change` returns the same state to change nothing, and is called again after a concurrent write.
 *
 * **Errors**: as {@link ensureRobotAuthority}, and those of `change`.
 */
export async function changeRobotAuthority(
  options: AuthorityStoreOptions & { readonly now: number },
  change: (state: AuthorityState) => AuthorityState | Promise<AuthorityState>,
): Promise<RobotAuthority> {
  return await retryOnConflict(async () => {
    const { stored, resourceVersion } = await readState(options);
    const state = await change(await currentAuthorityState(stored, options.now));
    if (state !== stored) await writeState(options, state, resourceVersion);
    return new RobotAuthority(state);
  });
}

async function readState({
  client,
  namespace,
  signal,
}: Omit<AuthorityStoreOptions, "fieldManager"> & { readonly signal?: AbortSignal }): Promise<{
  readonly stored: AuthorityState | undefined;
  readonly resourceVersion: string | undefined;
}> {
  const key = { namespace, name: identitySecret };
  const secret = await ignoreNotFound(client.get(Secret, key, signal === undefined ? {} : { signal }));
  return { stored: parseAuthorityState(secret?.data), resourceVersion: secret?.metadata.resourceVersion };
}

async function writeState(
  { client, namespace, fieldManager }: AuthorityStoreOptions,
  state: AuthorityState,
  resourceVersion: string | undefined,
): Promise<void> {
  const name = identitySecret;
  const data = { "authority.json": Buffer.from(JSON.stringify(state)).toString("base64") };
  if (resourceVersion === undefined) {
    await client.create(Secret, { metadata: { name, namespace }, type: "Opaque", data }, { fieldManager });
    return;
  }
  await client.patch(
    Secret,
    { namespace, name },
    { type: "merge", body: { metadata: { resourceVersion }, data } },
    { fieldManager },
  );
}
