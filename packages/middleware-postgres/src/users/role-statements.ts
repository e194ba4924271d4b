import type { ProgramLogin } from "@keelson/middleware-agent";
import { superuser } from "../server/postgres-client.ts";
import type { UserPrivileges } from "./user-rules.ts";

/** A role of the server. */
export interface ExistingRole {
  readonly name: string;
  /** The user of the App that it belongs to; null if it was created by others. */
  readonly user: string | null;
  readonly canLogin: boolean;
  readonly verifier: string | null;
  readonly mayCreateDatabases: boolean;
  readonly connections: number;
  readonly isSuperuser: boolean;
  readonly memberOf: readonly string[];
}

/** A user and its logins. */
export interface WantedUser {
  /** `default` is the superuser. */
  readonly name: string;
  readonly privileges: UserPrivileges;
  readonly logins: readonly ProgramLogin[];
}

/** Name of the role that owns what a user creates, and that has its permissions. */
export const roleOf = (user: string): string => (user === "default" ? superuser : user);

/** Start of the comment of roles that belong to a user of the App. */
export const commentPrefix = "managed by Keelson for user ";

/** A name as an SQL identifier. */
export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const quoteText = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Statements that create the missing roles of a user, without permissions and passwords: rules of other users may name them. Pure. */
export function creationStatements(
  wanted: WantedUser,
  existing: readonly ExistingRole[],
): readonly string[] | { readonly problem: string } {
  const base = roleOf(wanted.name);
  const own = ownRoles(wanted, existing);
  const names = namesOf(wanted);
  const foreign = existing.find(({ name }) => names.includes(name) && !own.some((each) => each.name === name));
  if (foreign !== undefined)
    return { problem: `role ${foreign.name} exists, and does not belong to this user: rename or drop it` };
  return names
    .filter((name) => !own.some((each) => each.name === name))
    .flatMap((name) => [
      `CREATE ROLE ${quoteName(name)}`,
      `COMMENT ON ROLE ${quoteName(name)} IS ${quoteText(commentPrefix + wanted.name)}`,
      ...(name === base ? [] : secondLogin(name, base, wanted)),
    ]);
}

/**
 * Statements that give a user its permissions and logins. Its first login is the role itself; another one becomes that role when it connects, so
 * that it owns and may do the same. `keepsOthers`: other logins of the user keep their passwords. Pure.
 */
export function roleStatements(
  wanted: WantedUser,
  existing: readonly ExistingRole[],
  { keepsOthers = false } = {},
): readonly string[] | { readonly problem: string } {
  const created = creationStatements(wanted, existing);
  if ("problem" in created) return created;
  if (wanted.name !== "default" && wanted.privileges.roles.some((role) => role === superuser || isSuperuserOf(role, existing)))
    return { problem: "must not be a member of a superuser" };
  const own = ownRoles(wanted, existing);
  const ended = keepsOthers ? [] : own.filter(({ name }) => !wanted.logins.some((login) => login.name === name));
  return [
    ...created,
    ...(wanted.name === "default" ? [] : privilegeStatements(roleOf(wanted.name), wanted, own)),
    ...wanted.logins.flatMap((login) => loginStatements(login, own)),
    ...ended.flatMap((role) => endedLogin(role)),
  ];
}

/** Why users cannot be members of the roles that their rules name: these do not exist, or belong to users that are removed. Pure. */
export function membershipProblem(users: readonly WantedUser[], existing: readonly ExistingRole[]): string | undefined {
  const removed = rolesWithoutUser(
    existing,
    users.map(({ name }) => name),
  );
  const kept = existing.filter((role) => !removed.includes(role)).map(({ name }) => name);
  const known = new Set([...kept, ...users.flatMap(namesOf)]);
  for (const { name, privileges } of users) {
    const unknown = privileges.roles.find((role) => !known.has(role));
    if (unknown !== undefined) return `user ${name}: rule "role:${unknown}" must name a user or an existing role`;
  }
  return undefined;
}

const namesOf = ({ name, logins }: WantedUser): readonly string[] => [
  ...new Set([roleOf(name), ...logins.map((login) => login.name)]),
];

const ownRoles = ({ name }: WantedUser, existing: readonly ExistingRole[]): readonly ExistingRole[] =>
  existing.filter((role) => role.user === name || (role.name === superuser && name === "default"));

const isSuperuserOf = (role: string, existing: readonly ExistingRole[]): boolean =>
  existing.some(({ name, isSuperuser }) => name === role && isSuperuser);

function secondLogin(name: string, base: string, wanted: WantedUser): readonly string[] {
  return [
    `GRANT ${quoteName(base)} TO ${quoteName(name)}`,
    `ALTER ROLE ${quoteName(name)} SET role = ${quoteText(base)}`,
    // Replication checks the login itself.
    ...(wanted.name === "default" ? [`ALTER ROLE ${quoteName(name)} SUPERUSER`] : []),
  ];
}

function privilegeStatements(
  base: string,
  { privileges, logins }: WantedUser,
  own: readonly ExistingRole[],
): readonly string[] {
  const role = own.find(({ name }) => name === base);
  const statements: string[] = [];
  if ((role?.mayCreateDatabases ?? false) !== privileges.mayCreateDatabases)
    statements.push(`ALTER ROLE ${quoteName(base)} ${privileges.mayCreateDatabases ? "" : "NO"}CREATEDB`);
  for (const name of new Set([base, ...logins.map((login) => login.name)]))
    if ((own.find((each) => each.name === name)?.connections ?? -1) !== privileges.connections)
      statements.push(`ALTER ROLE ${quoteName(name)} CONNECTION LIMIT ${privileges.connections}`);
  const memberOf = role?.memberOf ?? [];
  for (const name of privileges.roles.filter((each) => !memberOf.includes(each)))
    statements.push(`GRANT ${quoteName(name)} TO ${quoteName(base)}`);
  for (const name of memberOf.filter((each) => !privileges.roles.includes(each)))
    statements.push(`REVOKE ${quoteName(name)} FROM ${quoteName(base)}`);
  return statements;
}

function loginStatements({ name, verifier }: ProgramLogin, own: readonly ExistingRole[]): readonly string[] {
  const role = own.find((each) => each.name === name);
  if (role?.canLogin === true && role.verifier === verifier) return [];
  return [`ALTER ROLE ${quoteName(name)} LOGIN PASSWORD ${quoteText(verifier)}`];
}

/** A login whose password has ended. The agent itself is the superuser, without a password. */
function endedLogin({ name, canLogin, verifier }: ExistingRole): readonly string[] {
  if (name === superuser) return verifier === null ? [] : [`ALTER ROLE ${superuser} PASSWORD NULL`];
  return canLogin || verifier !== null ? [`ALTER ROLE ${quoteName(name)} NOLOGIN PASSWORD NULL`] : [];
}

/** Roles that belong to users that the App no longer has, other logins first. Pure. */
export function rolesWithoutUser(existing: readonly ExistingRole[], users: readonly string[]): readonly ExistingRole[] {
  return existing
    .filter(({ user }) => user !== null && !users.includes(user))
    .toSorted((a, b) => Number(a.name === a.user) - Number(b.name === b.user));
}

/** Statements that keep a role from connecting. Pure. */
export const disabledRole = (role: ExistingRole): readonly string[] => endedLogin(role);
