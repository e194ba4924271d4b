import { describe, expect, it } from "vitest";
import { type ExistingRole, rolesWithoutUser, roleStatements, type WantedUser } from "./role-statements.ts";

const role = (name: string, change: Partial<ExistingRole> = {}): ExistingRole => ({
  ...{ name, user: null, canLogin: true, verifier: null, mayCreateDatabases: false, connections: -1 },
  ...{ isSuperuser: false, memberOf: [] },
  ...change,
});
const superuser = role("postgres", { isSuperuser: true, verifier: "v1" });
const privileges = { roles: [], databases: [], mayCreateDatabases: false, connections: -1 };
const reader = (...logins: readonly string[]): WantedUser => ({
  ...{ name: "reader", privileges },
  logins: logins.map((name) => ({ name, verifier: `verifier of ${name}` })),
});
const existing = role("reader", { user: "reader", verifier: "verifier of reader" });

describe("the statements for a user", () => {
  it("create its role with its permissions and its login", () => {
    const user = { ...reader("reader"), privileges: { ...privileges, roles: ["pg_monitor"], connections: 5 } };
    expect(roleStatements(user, [superuser])).toEqual([
      'CREATE ROLE "reader"',
      `COMMENT ON ROLE "reader" IS 'managed by Keelson for user reader'`,
      'ALTER ROLE "reader" CONNECTION LIMIT 5',
      'GRANT "pg_monitor" TO "reader"',
      `ALTER ROLE "reader" LOGIN PASSWORD 'verifier of reader'`,
    ]);
  });

  it("are none if the server has it already", () => {
    expect(roleStatements(reader("reader"), [superuser, existing])).toEqual([]);
  });

  it("add a second login that acts as the first, and leave the password of the first one alone", () => {
    expect(roleStatements(reader("reader", "reader_b"), [superuser, existing])).toEqual([
      'CREATE ROLE "reader_b"',
      `COMMENT ON ROLE "reader_b" IS 'managed by Keelson for user reader'`,
      'GRANT "reader" TO "reader_b"',
      `ALTER ROLE "reader_b" SET role = 'reader'`,
      `ALTER ROLE "reader_b" LOGIN PASSWORD 'verifier of reader_b'`,
    ]);
  });

  it("end the login whose password has ended", () => {
    const second = role("reader_b", { user: "reader", verifier: "verifier of reader_b", memberOf: ["reader"] });
    expect(roleStatements(reader("reader_b"), [superuser, existing, second])).toEqual([
      'ALTER ROLE "reader" NOLOGIN PASSWORD NULL',
    ]);
    const admin = { name: "default", privileges, logins: [{ name: "postgres_b", verifier: "v2" }] };
    const other = role("postgres_b", { user: "default", verifier: "v2", isSuperuser: true });
    expect(roleStatements(admin, [superuser, other])).toEqual(["ALTER ROLE postgres PASSWORD NULL"]);
    expect(roleStatements(admin, [superuser, other], { keepsOthers: true })).toEqual([]);
  });

  it("revoke memberships that its rules do not name", () => {
    expect(roleStatements(reader("reader"), [superuser, { ...existing, memberOf: ["pg_monitor"] }])).toEqual([
      'REVOKE "pg_monitor" FROM "reader"',
    ]);
  });

  it("are refused for the role of another, and for a membership in a superuser", () => {
    expect(roleStatements(reader("reader"), [superuser, role("reader")])).toMatchObject({
      problem: expect.stringContaining("role reader exists"),
    });
    const user = { ...reader("reader"), privileges: { ...privileges, roles: ["admin"] } };
    expect(roleStatements(user, [superuser, role("admin", { isSuperuser: true })])).toEqual({
      problem: "must not be a member of a superuser",
    });
  });
});

describe("roles of users that the App does not have", () => {
  it("are found, second logins first, and roles of others are not", () => {
    const second = role("reader_b", { user: "reader" });
    const found = rolesWithoutUser([superuser, existing, second, role("other")], ["default"]);
    expect(found.map(({ name }) => name)).toEqual(["reader_b", "reader"]);
    expect(rolesWithoutUser([superuser, existing, second], ["default", "reader"])).toEqual([]);
  });
});
