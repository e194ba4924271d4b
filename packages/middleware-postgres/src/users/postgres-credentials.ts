import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { sleep } from "@keelson/api-machinery/time";
import {
  type CredentialEngine,
  type Credentials,
  CredentialStore,
  createScramVerifier,
  type EngineOptions,
  matchesScramVerifier,
  type Outcome,
  type UserCredentials,
} from "@keelson/middleware-agent";
import { Sequence } from "../sequence.ts";
import { type Login, loginOf } from "../server/peer-connection.ts";
import { PostgresError, superuser } from "../server/postgres-client.ts";
import type { PostgresServer } from "../server/postgres-server.ts";
import { readState } from "../server/server-state.ts";
import { membershipProblem, type WantedUser } from "./role-statements.ts";
import { applyUsers, hasLogins, readRoles, removeUsers } from "./server-users.ts";
import { parseRules } from "./user-rules.ts";

/** A replica that serves clients confirms logins when it has them from its primary. */
const replicationTimeoutMs = 5_000;
const pollMs = 100;

/** Options of {@link PostgresCredentials}. */
export interface PostgresCredentialOptions {
  readonly engine: Pick<EngineOptions, "dataDir" | "password" | "flags" | "clock" | "log">;
  readonly server: () => Pick<PostgresServer, "connection" | "isRunning" | "isOpen">;
  /** Makes a standby use a login at its primary, when the server may be changed. */
  readonly useLogin: (login: Login) => Promise<void>;
}

/**
 * Users of a server. PostgreSQL has one password per role, so a user has two login roles, of which one is disabled except during a rotation.
 * The primary changes roles, and replicas receive them with the log.
 */
export class PostgresCredentials implements CredentialEngine {
  readonly #options: PostgresCredentialOptions;
  readonly #store: CredentialStore;
  /** Changes run one after the other, so that a server that becomes the primary never has the users of an older one. */
  readonly #changes = new Sequence();

  constructor(options: PostgresCredentialOptions) {
    this.#options = options;
    const { dataDir, password, flags } = options.engine;
    const login = flags["program-login"] || superuser;
    this.#store = new CredentialStore({ file: join(dataDir, "keelson-credentials.json"), initial: { password, login } });
  }

  /** Logins that other servers may accept, the most likely first. */
  readonly logins = (): readonly [Login, ...Login[]] => {
    const [first, ...others] = this.#store.passwords;
    return [loginOf(first), ...others.map(loginOf)];
  };

  /** What the agent reports. */
  get info(): Readonly<Record<"credentials" | "credentialsId", string>> {
    return { credentials: String(this.#store.sequence), credentialsId: this.#store.id };
  }

  /** Reads the credentials that an earlier agent has persisted. */
  load(): Promise<void> {
    return this.#store.load();
  }

  async set(credentials: Credentials): Promise<Outcome> {
    const outcome = await this.#untilSet(credentials);
    const { engine, useLogin } = this.#options;
    // Not awaited: the server may be a copy in progress. A standby that cannot connect compares its data again, with all logins.
    if (outcome.ok)
      useLogin(this.logins()[0]).catch((error: unknown) => engine.log.warn({ err: error }, "could not change the login"));
    return outcome;
  }

  accepts(user: string, password: string): boolean {
    return this.#store.accepts(user, password);
  }

  /**
   * Gives the data of a new primary its users, before clients can connect: that of a backup has those of another App. Users that the server
   * rejects are left out. Rejects with a `PostgresError`.
   */
  apply(): Promise<void> {
    return this.#changes.run(async () => {
      const { connection } = this.#options.server();
      const { log } = this.#options.engine;
      if (!this.#store.isSent) return this.#applyInitial();
      const users = wantedUsers(this.#store.users);
      if ("problem" in users) throw new PostgresError("Refused", users.problem);
      const leaveOut = (user: string, problem: string): void =>
        log.warn({ user, problem }, "left out a user that the server rejects");
      const problem = await applyUsers(users, connection, { leaveOut });
      if (problem !== undefined) throw new PostgresError("Refused", problem);
      await removeUsers(users, connection, log);
    });
  }

  /**
   * The only login that is known is that of the Pod. If the data does not have it, logins that an earlier App has left are ended. Others are
   * kept: the data may have come from another server with users that this one does not know yet.
   */
  async #applyInitial(): Promise<void> {
    const { connection } = this.#options.server();
    const { user, password } = this.logins()[0];
    const known = (await readRoles(connection)).find(({ name }) => name === user);
    if (known?.canLogin === true && (await matchesScramVerifier(known.verifier ?? "", password))) return;
    const login = { name: user, verifier: await createScramVerifier(password, randomBytes(16)) };
    const problem = await applyUsers([{ name: "default", privileges: noPrivileges, logins: [login] }], connection, {
      keepsOthers: !this.#store.isOutdated,
    });
    if (problem !== undefined) throw new PostgresError("Refused", problem);
  }

  /** Rejects with a `PostgresError` if the primary's change does not arrive. Between the attempts, a failover can change the users. */
  async #untilSet(credentials: Credentials): Promise<Outcome> {
    const { clock } = this.#options.engine;
    const deadline = clock.monotonic() + replicationTimeoutMs;
    for (;;) {
      const outcome = await this.#changes.run(() => this.#set(credentials));
      if (outcome !== "pending") return outcome;
      if (clock.monotonic() > deadline)
        throw new PostgresError("Unreachable", `this replica has not received the users within ${replicationTimeoutMs} ms`);
      await sleep(clock, pollMs);
    }
  }

  /** `pending`: a replica has not received the users yet. */
  async #set(credentials: Credentials): Promise<Outcome | "pending"> {
    const refusal = this.#store.refusalOf(credentials);
    if (refusal !== undefined) return { ok: false, error: refusal };
    const users = wantedUsers(credentials.users);
    if ("problem" in users) return { ok: false, error: users.problem };
    const server = this.#options.server();
    // A server that serves no clients has the users when it does.
    if (server.isRunning && server.isOpen) {
      if ((await readState(server.connection)).isStandby) {
        if (!hasLogins(users, await readRoles(server.connection))) return "pending";
      } else {
        const problem = await this.#applyAll(users);
        if (problem !== undefined) return { ok: false, error: problem };
      }
    }
    await this.#store.save(credentials);
    return { ok: true };
  }

  async #applyAll(users: readonly WantedUser[]): Promise<string | undefined> {
    const { connection } = this.#options.server();
    const problem = membershipProblem(users, await readRoles(connection)) ?? (await applyUsers(users, connection));
    if (problem === undefined) await removeUsers(users, connection, this.#options.engine.log);
    return problem;
  }
}

const noPrivileges = { roles: [], databases: [], mayCreateDatabases: false, connections: -1 };

/** The users with their parsed rules, or why they cannot be created. */
function wantedUsers(users: readonly UserCredentials[]): readonly WantedUser[] | { readonly problem: string } {
  const wanted: WantedUser[] = [];
  for (const { name, rules, logins } of users) {
    const privileges = parseRules(rules);
    if ("problem" in privileges) return { problem: `user ${name}: ${privileges.problem}` };
    if (logins === undefined || logins.length === 0) return { problem: `user ${name}: logins: required` };
    wanted.push({ name, privileges, logins });
  }
  const owners = new Map<string, string>();
  for (const { name, privileges } of wanted)
    for (const database of privileges.databases) {
      const other = owners.get(database);
      if (other !== undefined) return { problem: `user ${name}: database ${database} belongs to user ${other}` };
      owners.set(database, name);
    }
  return wanted;
}
