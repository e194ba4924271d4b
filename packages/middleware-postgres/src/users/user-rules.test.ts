import { describe, expect, it } from "vitest";
import { parseRules } from "./user-rules.ts";

describe("the rules of a user", () => {
  it("name roles, databases, a number of connections, and permission to create databases", () => {
    expect(parseRules(["role:pg_monitor", "database:app", "role:app", "connections:5", "createdb"])).toEqual({
      ...{ roles: ["app", "pg_monitor"], databases: ["app"] },
      ...{ connections: 5, mayCreateDatabases: true },
    });
    expect(parseRules([])).toEqual({ roles: [], databases: [], connections: -1, mayCreateDatabases: false });
  });

  it.each([
    "superuser",
    "role:",
    "role:a b",
    "database:postgres",
    "database:template1",
    "connections:-1",
    'role:a"b',
    "+@read",
  ])("reject %s", (rule) => {
    expect(parseRules([rule])).toMatchObject({ problem: expect.stringContaining(JSON.stringify(rule)) });
  });
});
