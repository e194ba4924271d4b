/** What a user may do, by its rules. */
export interface UserPrivileges {
  /** Roles that it is a member of. */
  readonly roles: readonly string[];
  /** Databases that it owns. */
  readonly databases: readonly string[];
  readonly mayCreateDatabases: boolean;
  /** Maximum number of connections; -1 without a limit. */
  readonly connections: number;
}

const reservedDatabases: readonly string[] = ["postgres", "template0", "template1"];
const rulePattern = /^(?:(role|database):([A-Za-z_][A-Za-z0-9_-]{0,62})|connections:(\d{1,6})|(createdb))$/;
const syntax = "must be role:NAME, database:NAME, connections:NUMBER or createdb";

/** Parses the rules of a user. Pure. */
export function parseRules(rules: readonly string[]): UserPrivileges | { readonly problem: string } {
  const [roles, databases] = [new Set<string>(), new Set<string>()];
  let [mayCreateDatabases, connections] = [false, -1];
  for (const rule of rules) {
    const [match, kind, name = "", limit] = rulePattern.exec(rule) ?? [];
    if (match === undefined) return { problem: `rule ${JSON.stringify(rule)} ${syntax}` };
    if (kind === "database" && reservedDatabases.includes(name))
      return { problem: `rule ${JSON.stringify(rule)} must not name a database of the server itself` };
    if (kind === "role") roles.add(name);
    else if (kind === "database") databases.add(name);
    else if (limit !== undefined) connections = Number(limit);
    else mayCreateDatabases = true;
  }
  return { roles: [...roles].sort(), databases: [...databases].sort(), mayCreateDatabases, connections };
}
