import { randomBytes } from "node:crypto";
import { setOwn } from "@keelson/api-machinery";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { durationFlag, invalidFlag, isUsageError, switchFlag, textFlag, UsageError } from "@keelson/operator/flags";
import type { Client } from "@keelson/client";
import { createOneTimeToken, formatOneTimeToken, publicKeyText, tokenKey } from "../identity/one-time-token.ts";
import { ensureRobotAuthority } from "../identity/authority/authority-store.ts";
import { retryOnConflict } from "../identity/retry-on-conflict.ts";
import { readTokens, type StoredToken, type TokenStoreOptions, writeTokens } from "../identity/token-store.ts";
import { robotIdPattern } from "../protocol/messages.ts";
import { namespaceFlag } from "./flags.ts";

const flags = {
  robot: textFlag({ name: "robot", value: "ID", description: "create: ID of the only robot that may join with the token" }),
  selector: textFlag({
    name: "selector",
    short: "l",
    value: "KEY=VALUE[,...]",
    description: "create: labels that the robot gets if the token creates it, and otherwise must have",
  }),
  ttl: durationFlag({
    name: "ttl",
    description: "create: time after which the token expires",
    default: "24h",
    minMs: 1000,
    maxMs: 365 * 86_400_000,
  }),
  requireApproval: switchFlag({
    name: "require-approval",
    description: "create: the robot receives no work until it is approved: keelson robots approve ID",
  }),
};

const fieldManager = "keelson-robots-token";

/** `keelson robots token create | list | delete`. */
export const tokenCommand: CommandDefinition = {
  name: "token",
  description: "create, list or delete join tokens, which admit one robot once",
  args: ["create|list|delete", "[TOKEN-IDS...]"],
  flags: [namespaceFlag, ...Object.values(flags), outputFlag],
  async run(context) {
    const { args, stderr, signal, flags: values } = context;
    const [action, ...ids] = args;
    try {
      if (action === "delete" ? ids.length === 0 : ids.length > 0) {
        throw new UsageError(
          action === "delete" ? "delete needs the IDs of tokens" : `${action ?? ""} takes no further arguments`,
        );
      }
      if (action !== "create" && action !== "list" && action !== "delete") {
        throw new UsageError(`${JSON.stringify(action)} must be create, list or delete`);
      }
      if (action === "create") readBinding(context);
    } catch (error) {
      if (!isUsageError(error)) throw error;
      stderr.write(`${error.message}\n`);
      return 2;
    }
    const client = await context.client();
    try {
      const store = { client, namespace: namespaceFlag.read(values), fieldManager, signal };
      if (action === "create") return await createToken(context, store);
      return action === "list" ? await listTokens(context, store) : await deleteTokens(context, store, ids);
    } finally {
      await client.close();
    }
  },
};

function readBinding({ flags: values }: CommandContext): Pick<StoredToken, "robot" | "labels"> {
  const robot = flags.robot.read(values);
  const labels = readLabels(flags.selector.read(values));
  if (robot !== undefined && !robotIdPattern.test(robot)) {
    throw invalidFlag(flags.robot, robot, "must be up to 63 of a-z, 0-9 and -, and must not begin or end with -");
  }
  if (robot === undefined && Object.keys(labels).length === 0) {
    throw new UsageError("a token must be bound: set --robot ID, or -l KEY=VALUE");
  }
  return { ...(robot === undefined ? {} : { robot }), ...(Object.keys(labels).length === 0 ? {} : { labels }) };
}

function readLabels(text: string | undefined): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {};
  for (const pair of text?.split(",") ?? []) {
    const equals = pair.indexOf("=");
    if (equals < 1) throw invalidFlag(flags.selector, pair, "must be of the form KEY=VALUE");
    setOwn(labels, pair.slice(0, equals), pair.slice(equals + 1));
  }
  return labels;
}

/** Creates a join token and returns its text. Expired tokens are removed. */
export async function issueToken(
  store: TokenStoreOptions,
  options: Pick<StoredToken, "robot" | "labels" | "requiresApproval"> & { readonly ttlMs: number },
  now: number,
): Promise<{ readonly text: string; readonly stored: StoredToken }> {
  // A robot that joins also writes the tokens.
  return await retryOnConflict(() => tryIssueToken(store, options, now));
}

async function tryIssueToken(
  store: TokenStoreOptions,
  { ttlMs, ...binding }: Parameters<typeof issueToken>[1],
  now: number,
): ReturnType<typeof issueToken> {
  const authority = await ensureRobotAuthority({ ...store, now });
  const { tokens, resourceVersion } = await readTokens(store);
  const token = createOneTimeToken(authority.pin, randomBytes);
  const stored: StoredToken = {
    ...binding,
    id: token.id,
    authority: token.pin,
    publicKey: publicKeyText(tokenKey(token)),
    createdAt: new Date(now).toISOString(),
    expiresAt: new Date(now + ttlMs).toISOString(),
  };
  const remove = tokens.filter(({ expiresAt }) => Date.parse(expiresAt) <= now).map(({ id }) => id);
  await writeTokens(store, { write: [stored], remove }, resourceVersion);
  return { text: formatOneTimeToken(token), stored };
}

async function createToken(context: CommandContext, store: TokenStoreOptions & { readonly client: Client }): Promise<number> {
  const { flags: values, stdout, stderr, clock } = context;
  const requiresApproval = flags.requireApproval.read(values);
  const options = { ...readBinding(context), ...(requiresApproval ? { requiresApproval } : {}), ttlMs: flags.ttl.read(values) };
  const { text, stored } = await issueToken(store, options, clock.now());
  stdout.write(formatResult(context, { ...stored, token: text }, () => `${text}\n`));
  const id = stored.robot ?? "ID";
  stderr.write(
    `The token is shown once. On the robot: K8S4R_TOKEN=... keelson robots agent --robot-id ${id} --broker-url mqtts://HOST:1883\n`,
  );
  return 0;
}

async function listTokens(context: CommandContext, store: TokenStoreOptions): Promise<number> {
  const { tokens } = await readTokens(store);
  const { stdout, clock } = context;
  stdout.write(formatResult(context, tokens, () => describeTokens(tokens, store.namespace, clock.now())));
  return 0;
}

/** A table of tokens, or how to create one. */
function describeTokens(tokens: readonly StoredToken[], namespace: string, now: number): string {
  if (tokens.length === 0)
    return `No join tokens in namespace ${namespace}; create one: keelson robots token create --robot ID\n`;
  const rows = tokens.map(({ id, robot, labels = {}, used, expiresAt, requiresApproval }) => [
    id,
    robot ??
      Object.entries(labels)
        .map((label) => label.join("="))
        .join(","),
    used === undefined ? (Date.parse(expiresAt) <= now ? "expired" : "unused") : `used by ${used.robot}`,
    expiresAt,
    requiresApproval === true ? "required" : "-",
  ]);
  return renderTable([["TOKEN ID", "ROBOT OR LABELS", "STATE", "EXPIRES", "APPROVAL"], ...rows]);
}

async function deleteTokens(
  { stdout, stderr }: CommandContext,
  store: TokenStoreOptions,
  ids: readonly string[],
): Promise<number> {
  const { tokens, resourceVersion } = await readTokens(store);
  const known = ids.filter((id) => tokens.some((token) => token.id === id));
  if (known.length > 0) await writeTokens(store, { remove: known }, resourceVersion);
  for (const id of known) stdout.write(`token ${id} deleted\n`);
  const unknown = ids.filter((id) => !known.includes(id));
  for (const id of unknown) {
    stderr.write(
      `token ${id} not found in namespace ${store.namespace}; list tokens: keelson robots token list -n ${store.namespace}\n`,
    );
  }
  return unknown.length === 0 ? 0 : 1;
}
