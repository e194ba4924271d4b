import { createHash, timingSafeEqual } from "node:crypto";
import type { Logger } from "@keelson/controller";
import type { CredentialEngine, Credentials, Outcome, UserCredentials } from "@keelson/middleware-agent";
import { readJson, writeJson } from "@keelson/middleware-agent";
import type { RedisConnection } from "../redis-connection.ts";
import { RespError } from "../resp-client.ts";

/** Credentials as persisted in the volume, like redis.conf readable only by the server's user. */
interface StoredCredentials extends Credentials {
  /** The password before the last change. Servers of other Pods may still have it. */
  readonly previous?: string;
  /** Hash of the password of the Pod at that time. A Pod with another one is newer than the file. */
  readonly startedWith: string;
}

/** Options of {@link RedisCredentials}. */
export interface RedisCredentialOptions {
  readonly connection: Pick<RedisConnection, "run" | "password">;
  readonly file: string;
  /** Password that the Pod was started with. */
  readonly password: string;
  /** Whether clients must not be able to log in yet. */
  readonly isIsolated: () => boolean;
  readonly log: Logger;
}

/** Users and passwords of a server. Servers that were (re)started get them with their role. */
export class RedisCredentials implements CredentialEngine {
  readonly #options: RedisCredentialOptions;
  #stored: StoredCredentials;
  /** Changes run one after the other, so that a server that gets its role never has the users of an older one. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: RedisCredentialOptions) {
    this.#options = options;
    const { password } = options;
    const users = [{ name: "default", rules: [], passwordHashes: [hashOf(password)] }];
    this.#stored = { sequence: 0, password, users, startedWith: hashOf(password) };
  }

  /** Sequence of the credentials in force. */
  get sequence(): number {
    return this.#stored.sequence;
  }

  /** Id of the credentials in force. Empty without one. */
  get id(): string {
    return this.#stored.id ?? "";
  }

  /** Password at other servers. */
  get password(): string {
    return this.#stored.password;
  }

  /** Passwords that servers of other Pods may have, the most likely first. */
  get passwords(): readonly string[] {
    const { password, previous } = this.#stored;
    return [...new Set([password, ...(previous === undefined ? [] : [previous]), this.#options.password])];
  }

  /** Reads the credentials that an earlier agent has persisted. */
  async load(): Promise<void> {
    const stored = (await readJson(this.#options.file)) as StoredCredentials | undefined;
    if (stored === undefined) return;
    const { password, startedWith } = this.#stored;
    // The Secret has changed since: its password is accepted too.
    const isNewer = stored.startedWith !== startedWith && !stored.users.some((user) => accepts(user, password));
    this.#stored = isNewer ? withPassword(stored, password) : { ...stored, startedWith };
  }

  set(credentials: Credentials): Promise<Outcome> {
    return this.#next(() => this.#set(credentials));
  }

  /**
   * Lets clients log in; `onAdmitted` ends the isolation. Users whose rules the program rejects, such as an older version, are left out.
   * Rejects with a `RespError`.
   */
  admit(onAdmitted: () => void): Promise<void> {
    return this.#next(async () => {
      const { connection, log } = this.#options;
      for (const user of this.#stored.users) {
        const error = await applyUser(connection, user);
        if (error !== undefined && user.name === "default") throw new RespError("Refused", error);
        if (error !== undefined) log.warn({ user: user.name, error }, "left out a user that the program rejects");
      }
      connection.password = this.#stored.password;
      onAdmitted();
    });
  }

  async #set(credentials: Credentials): Promise<Outcome> {
    const last = this.#stored;
    // The App was created again with the volumes of an earlier one, or its Secret was restored.
    const isReplaced = credentials.id !== last.id;
    if (!isReplaced && credentials.sequence < last.sequence)
      return { ok: false, error: `sequence ${credentials.sequence} is older than ${last.sequence}` };
    const { connection, file, isIsolated } = this.#options;
    const previous = credentials.password === last.password ? last.previous : last.password;
    const next = { ...credentials, startedWith: last.startedWith, ...(previous === undefined ? {} : { previous }) };
    const existing = isReplaced && !isIsolated() ? await usersOf(connection) : last.users.map(({ name }) => name);
    const removed = existing.filter((name) => !credentials.users.some((user) => user.name === name));
    const error = isIsolated()
      ? await validateUsers(connection, credentials.users)
      : await applyUsers(connection, credentials.users, removed);
    if (error !== undefined) return { ok: false, error };
    if (!isIsolated()) connection.password = credentials.password;
    await connection.run("CONFIG", "SET", "masterauth", credentials.password);
    // Last: a change that was interrupted must not be reported as one in force.
    await writeJson(file, next);
    this.#stored = next;
    return { ok: true };
  }

  accepts(name: string, password: string): boolean {
    return this.#stored.users.some((user) => user.name === name && accepts(user, password));
  }

  #next<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#last.then(act);
    this.#last = result.catch(() => undefined);
    return result;
  }
}

type AclConnection = RedisCredentialOptions["connection"];

/** Sets users, and deletes others. Resolves to why the server rejects one of them. */
async function applyUsers(
  connection: AclConnection,
  users: readonly UserCredentials[],
  removed: readonly string[],
): Promise<string | undefined> {
  for (const user of users) {
    const error = await applyUser(connection, user);
    if (error !== undefined) return error;
  }
  if (removed.length > 0) await connection.run("ACL", "DELUSER", ...removed);
  return undefined;
}

async function usersOf(connection: AclConnection): Promise<readonly string[]> {
  const names = await connection.run("ACL", "USERS");
  return Array.isArray(names) ? names.map(String) : [];
}

/** Resolves to why an isolated server rejects one of the users. None of them can log in meanwhile. */
async function validateUsers(connection: AclConnection, users: readonly UserCredentials[]): Promise<string | undefined> {
  for (const { name, rules } of users) {
    if (name === "default") continue;
    // The last word wins over an "on" in the rules.
    const error = await setUser(connection, name, ["reset", ...rules, "off"]);
    if (error !== undefined) return error;
    await connection.run("ACL", "DELUSER", name);
  }
  return undefined;
}

function applyUser(connection: AclConnection, { name, rules, passwordHashes }: UserCredentials): Promise<string | undefined> {
  const passwords = passwordHashes.map((hash) => `#${hash}`);
  // The default user keeps its rights.
  return setUser(connection, name, name === "default" ? ["resetpass", ...passwords] : ["reset", "on", ...passwords, ...rules]);
}

/** The words take effect as a whole. Resolves to why the server rejects them. */
async function setUser(connection: AclConnection, name: string, words: readonly string[]): Promise<string | undefined> {
  try {
    await connection.run("ACL", "SETUSER", name, ...words);
    return undefined;
  } catch (error) {
    if (!(error instanceof RespError) || error.code !== "Refused") throw error;
    return `user ${name}: ${error.message}`;
  }
}

function withPassword(stored: StoredCredentials, password: string): StoredCredentials {
  const users = stored.users.map((user) =>
    user.name === "default" ? { ...user, passwordHashes: [...user.passwordHashes, hashOf(password)] } : user,
  );
  return { ...stored, users, password, previous: stored.password, startedWith: hashOf(password) };
}

const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");

function accepts({ passwordHashes }: UserCredentials, password: string): boolean {
  const own = Buffer.from(hashOf(password));
  return passwordHashes.some((hash) => hash.length === own.length && timingSafeEqual(Buffer.from(hash), own));
}
