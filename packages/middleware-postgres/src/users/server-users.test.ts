import { describe, expect, it } from "vitest";
import { SimulatedRoles, simulatedRole } from "../testing/simulated-roles.ts";
import type { WantedUser } from "./role-statements.ts";
import { applyUsers } from "./server-users.ts";

const user = (name: string, ...roles: readonly string[]): WantedUser => ({
  ...{ name, logins: [{ name, verifier: `v-${name}` }] },
  privileges: { roles, databases: [], mayCreateDatabases: false, connections: -1 },
});

describe("users of a server", () => {
  it("can be members of users that come later", async () => {
    const server = new SimulatedRoles(simulatedRole("postgres"));
    expect(await applyUsers([user("a", "b"), user("b")], server)).toBeUndefined();
    expect(server.roles.get("a")?.memberOf).toEqual(["b"]);
    expect(server.accepted).toEqual(["a=v-a", "b=v-b"]);
  });

  it("are applied without those that the server rejects, if these are left out", async () => {
    const server = new SimulatedRoles(simulatedRole("postgres"), simulatedRole("taken"));
    const users = [user("taken"), user("a", "missing"), user("b")];
    expect(await applyUsers(users, server)).toContain("user taken: role taken exists");
    const left: string[] = [];
    const leaveOut = (name: string, problem: string): void => void left.push(`${name}: ${problem}`);
    expect(await applyUsers(users, server, { leaveOut })).toBeUndefined();
    expect(left).toEqual([expect.stringContaining("taken: role taken exists"), 'a: role "missing" does not exist']);
    expect(server.accepted).toEqual(["b=v-b"]);
  });
});
