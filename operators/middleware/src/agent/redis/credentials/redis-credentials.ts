import type { Logger } from "@keelson/controller";
import type { CredentialEngine, Credentials, Outcome, UserCredentials } from "@keelson/middleware-agent";
import { CredentialStore } from "@keelson/middleware-agent";
import type { RedisConnection } from "../redis-connection.ts";
import { RespError } from "../resp-client.ts";

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
  readonly #store: CredentialStore;
  /** Changes run one after the other, so that a server that gets its role never has the users of an older one. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: RedisCredentialOptions) {
    this.#options = options;
    this.#store = new CredentialStore({ file: options.file, initial: { password: options.password } });
  }

  /** Sequence of the credentials in force. */
  get sequence(): number {
    return this.#store.sequence;
  }

  /** Id of the credentials in force. Empty without one. */
  get id(): string {
    return this.#store.id;
  }

  /** Password at other servers. */
  get password(): string {
    return this.#store.passwords[0].password;
  }

  /** Passwords that servers of other Pods may have, the most likely first. */
  get passwords(): readonly string[] {
    return this.#store.passwords.map(({ password }) => password);
  }

  /** Reads the credentials that an earlier agent has persisted. */
  load(): Promise<void> {
    return this.#store.load();
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
      for (const user of this.#store.users) {
        const error = await applyUser(connection, user);
        if (error !== undefined && user.name === "default") throw new RespError("Refused", error);
        if (error !== undefined) log.warn({ user: user.name, error }, "skipped a user that the program rejects");
      }
      connection.password = this.password;
      onAdmitted();
    });
  }

  async #set(credentials: Credentials): Promise<Outcome> {
    const refusal = this.#store.refusalOf(credentials) ?? problemOfRules(credentials.users);
    if (refusal !== undefined) return { ok: false, error: refusal };
    const { connection, isIsolated } = this.#options;
    const isReplaced = this.#store.isReplacedBy(credentials);
    const existing = isReplaced && !isIsolated() ? await usersOf(connection) : this.#store.users.map(({ name }) => name);
    const removed = existing.filter((name) => !credentials.users.some((user) => user.name === name));
    const error = isIsolated()
      ? await validateUsers(connection, credentials.users)
      : await applyUsers(connection, credentials.users, removed);
    if (error !== undefined) return { ok: false, error };
    if (!isIsolated()) connection.password = credentials.password;
    await connection.run("CONFIG", "SET", "masterauth", credentials.password);
    await this.#store.save(credentials);
    return { ok: true };
  }

  accepts(name: string, password: string): boolean {
    return this.#store.accepts(name, password);
  }

  #next<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#last.then(act);
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** Passwords and the state of a user are not rules: they come from its Secret. */
const rulePattern =
  /^(allkeys|resetkeys|allchannels|resetchannels|allcommands|nocommands|[+-][@A-Za-z][A-Za-z0-9_|.@-]*|(~|%R~|%W~|%RW~|&)[!-~]+)$/;

function problemOfRules(users: readonly UserCredentials[]): string | undefined {
  for (const { name, rules } of users)
    for (const rule of rules)
      if (!rulePattern.test(rule))
        return `user ${name}: rule ${JSON.stringify(rule)} must name commands, keys or channels, such as +@read, ~app:* or &news`;
  return undefined;
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

/** Resolves to why an isolated server rejects one of the users. None of them can log in in the meantime. */
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
  // The default user keeps its permissions.
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
