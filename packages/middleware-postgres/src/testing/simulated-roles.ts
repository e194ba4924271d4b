import { PostgresError } from "../server/postgres-client.ts";
import { commentPrefix, type ExistingRole } from "../users/role-statements.ts";

type Row = Readonly<Record<string, string | null>>;

const statementPattern =
  /^(CREATE ROLE|COMMENT ON ROLE|GRANT|ALTER ROLE|DROP ROLE) "?(\w+)"?(?: TO "(\w+)"| IS '([^']*)'| (?:(LOGIN|NOLOGIN) )?PASSWORD (?:'([^']*)'|NULL))?/;

/** The roles of a server in memory, with the statements of this package. Statements about anything else have no effect. */
export class SimulatedRoles {
  readonly roles = new Map<string, ExistingRole>();
  isStandby = false;
  /** How often the roles were read. */
  reads = 0;

  constructor(...roles: readonly ExistingRole[]) {
    for (const role of roles) this.roles.set(role.name, role);
  }

  /** Runs statements as one transaction. */
  one = (text: string): Promise<Row> => {
    if (text.includes("pg_is_in_recovery")) return Promise.resolve({ standby: String(this.isStandby) });
    if (text.includes("FROM pg_authid a")) {
      this.reads += 1;
      return Promise.resolve({ roles: JSON.stringify([...this.roles.values()]) });
    }
    const before = [...this.roles];
    try {
      for (const statement of text.split(";\n")) this.#run(statement);
    } catch (error) {
      this.roles.clear();
      for (const [name, role] of before) this.roles.set(name, role);
      return Promise.reject(error);
    }
    return Promise.resolve({});
  };

  long = (text: string): Promise<Row> => this.one(text);

  /** Logins that are accepted, as `name=verifier`. */
  get accepted(): readonly string[] {
    const roles = [...this.roles.values()].filter(({ canLogin, verifier }) => canLogin && verifier !== null);
    return roles.map(({ name, verifier }) => `${name}=${verifier}`).sort();
  }

  #run(statement: string): void {
    const [, kind, name = "", to, comment, login, verifier] = statementPattern.exec(statement) ?? [];
    if (kind === undefined) return;
    if (kind === "CREATE ROLE") this.roles.set(name, simulatedRole(name, { canLogin: false }));
    else if (kind === "DROP ROLE") this.roles.delete(name);
    else if (kind === "GRANT" && to !== undefined) {
      this.#change(name, {});
      this.#change(to, { memberOf: [...(this.roles.get(to)?.memberOf ?? []), name] });
    } else if (comment !== undefined) this.#change(name, { user: comment.slice(commentPrefix.length) });
    else if (statement.includes(" PASSWORD "))
      this.#change(name, { verifier: verifier ?? null, ...(login === undefined ? {} : { canLogin: login === "LOGIN" }) });
  }

  #change(name: string, change: Partial<ExistingRole>): void {
    const role = this.roles.get(name);
    if (role === undefined) throw new PostgresError("Refused", `role "${name}" does not exist`, "42704");
    this.roles.set(name, { ...role, ...change });
  }
}

/** A role of {@link SimulatedRoles}, which may log in and has no password. */
export const simulatedRole = (name: string, change: Partial<ExistingRole> = {}): ExistingRole => ({
  ...{ name, user: null, canLogin: true, verifier: null, mayCreateDatabases: false, connections: -1 },
  ...{ isSuperuser: name === "postgres", memberOf: [] },
  ...change,
});
