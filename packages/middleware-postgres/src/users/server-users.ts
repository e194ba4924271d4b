import type { Logger } from "@keelson/controller";
import type { LocalConnection } from "../server/postgres-client.ts";
import { PostgresError } from "../server/postgres-client.ts";
import {
  commentPrefix,
  creationStatements,
  disabledRole,
  type ExistingRole,
  quoteName,
  roleOf,
  roleStatements,
  rolesWithoutUser,
  type WantedUser,
} from "./role-statements.ts";

const databaseTimeoutMs = 30_000;
/** Error code of a role that owns or may use something. */
const dependentObjects = "2BP01";

const rolesText = `SELECT coalesce(json_agg(json_build_object(
    'name', rolname, 'canLogin', rolcanlogin, 'verifier', rolpassword, 'mayCreateDatabases', rolcreatedb,
    'connections', rolconnlimit, 'isSuperuser', rolsuper,
    'user', (SELECT substr(description, length($1) + 1) FROM pg_shdescription
      WHERE objoid = a.oid AND classoid = 'pg_authid'::regclass AND starts_with(description, $1)),
    'memberOf', (SELECT coalesce(json_agg(g.rolname), '[]') FROM pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid
      WHERE m.member = a.oid))), '[]')::text AS roles
  FROM pg_authid a`;

type Connection = Pick<LocalConnection, "one" | "long">;

/** Reads the roles of a server. Rejects with a `PostgresError`. */
export async function readRoles(connection: Pick<Connection, "one">): Promise<readonly ExistingRole[]> {
  const { roles } = await connection.one(rolesText, [commentPrefix]);
  return JSON.parse(roles ?? "[]") as readonly ExistingRole[];
}

/** Whether a server accepts exactly the wanted logins of all users. Pure. */
export function hasLogins(users: readonly WantedUser[], existing: readonly ExistingRole[]): boolean {
  return users.every((user) => {
    const own = existing.filter((role) => role.user === user.name || role.name === roleOf(user.name));
    const accepted = own.filter(({ canLogin, verifier }) => canLogin && verifier !== null);
    return (
      accepted.length === user.logins.length &&
      user.logins.every(({ name, verifier }) => accepted.some((role) => role.name === name && role.verifier === verifier))
    );
  });
}

/** How users are applied. */
export interface ApplyOptions {
  /** Other logins of users keep their passwords. */
  readonly keepsOthers?: boolean;
  /** Called for users other than `default` that the server rejects; the others are applied. Default: the first one ends the change. */
  readonly leaveOut?: (user: string, problem: string) => void;
}

/**
 * Gives users of a primary their permissions and logins. All roles are created first: users can be members of one another in any order. Resolves to
 * why the server rejects one of them. Rejects with a `PostgresError` if it does not respond.
 */
export async function applyUsers(
  users: readonly WantedUser[],
  connection: Connection,
  { leaveOut, ...options }: ApplyOptions = {},
): Promise<string | undefined> {
  const existing = await readRoles(connection);
  const rejected = new Set<string>();
  const steps: readonly ((user: WantedUser) => Promise<string | undefined>)[] = [
    (user) => runStatements(creationStatements(user, existing), connection),
    (user) => applyUser(user, connection, options),
  ];
  for (const step of steps)
    for (const user of users.filter(({ name }) => !rejected.has(name))) {
      const problem = await step(user);
      if (problem === undefined) continue;
      if (leaveOut === undefined || user.name === "default") return `user ${user.name}: ${problem}`;
      leaveOut(user.name, problem);
      rejected.add(user.name);
    }
  return undefined;
}

async function applyUser(
  user: WantedUser,
  connection: Connection,
  options: Pick<ApplyOptions, "keepsOthers">,
): Promise<string | undefined> {
  const problem = await runStatements(roleStatements(user, await readRoles(connection), options), connection);
  if (problem !== undefined) return problem;
  return rejectedBy(async () => {
    for (const name of user.privileges.databases) await ownDatabase(name, roleOf(user.name), connection);
  });
}

/** Runs statements in one transaction. Resolves to why there are none, or the server rejects them. */
async function runStatements(
  statements: readonly string[] | { readonly problem: string },
  connection: Connection,
): Promise<string | undefined> {
  if ("problem" in statements) return statements.problem;
  return rejectedBy(async () => {
    if (statements.length > 0) await connection.one(statements.join(";\n"));
  });
}

async function ownDatabase(name: string, owner: string, connection: Connection): Promise<void> {
  const text = "SELECT pg_get_userbyid(datdba) AS owner FROM pg_database WHERE datname = $1";
  const { owner: current } = await connection.one(text, [name]);
  if (current === owner) return;
  const change = current === undefined ? "CREATE DATABASE" : "ALTER DATABASE";
  const link = current === undefined ? "OWNER" : "OWNER TO";
  await connection.long(`${change} ${quoteName(name)} ${link} ${quoteName(owner)}`, databaseTimeoutMs);
}

/**
 * Ends the sessions of users that the App no longer has, and drops their roles. A role that owns something or may use it is kept
 * without a login. Rejects with a `PostgresError` if the server does not respond.
 */
export async function removeUsers(users: readonly WantedUser[], connection: Connection, log: Logger): Promise<void> {
  const removed = rolesWithoutUser(
    await readRoles(connection),
    users.map(({ name }) => name),
  );
  for (const role of removed) {
    const statements = disabledRole(role);
    if (statements.length > 0) await connection.one(statements.join(";\n"));
    await connection.one("SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_activity WHERE usename = $1", [role.name]);
    try {
      await connection.one(`DROP ROLE ${quoteName(role.name)}`);
    } catch (error) {
      if (!(error instanceof PostgresError) || error.sqlState !== dependentObjects) throw error;
      if (statements.length > 0) log.info({ role: role.name, reason: error.message }, "kept a role of a removed user");
    }
  }
}

/** Resolves to the message of a server that rejects a statement. */
async function rejectedBy(act: () => Promise<void>): Promise<string | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (error instanceof PostgresError && error.code === "Refused") return error.message;
    throw error;
  }
}
