import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { type Credentials, createScramVerifier, matchesScramVerifier } from "@keelson/middleware-agent";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SimulatedRoles, simulatedRole } from "../testing/simulated-roles.ts";
import { PostgresCredentials, type PostgresCredentialOptions } from "./postgres-credentials.ts";

let dataDir: string;
beforeEach(async () => void (dataDir = await mkdtemp(join(tmpdir(), "credentials-"))));
afterEach(() => rm(dataDir, { recursive: true, force: true }));

const verifierOf = (password: string): Promise<string> => createScramVerifier(password, randomBytes(16));
const clock = createVirtualClock();

/** The users of a server in a Pod that was started with a password. */
async function startPod(roles: SimulatedRoles, password: string): Promise<PostgresCredentials> {
  const server = { connection: roles, isRunning: true, isOpen: true } as unknown as ReturnType<
    PostgresCredentialOptions["server"]
  >;
  const engine = { dataDir, password, flags: { "program-login": "postgres" }, clock, log: silentLogger };
  const credentials = new PostgresCredentials({ engine, server: () => server, useLogin: () => Promise.resolve() });
  await credentials.load();
  return credentials;
}

const hash = "0".repeat(64);
const sent = (sequence: number, ...logins: readonly (readonly [string, string])[]): Credentials => ({
  ...{ sequence, id: "one", password: "sent" },
  users: logins.map(([name, verifier]) => ({
    ...{ name: name.startsWith("postgres") ? "default" : name, rules: [], passwordHashes: [hash] },
    logins: [{ name, verifier }],
  })),
});

describe("a Pod with a new Secret and the volume of an earlier App", () => {
  it("opens with the password of its Secret, and ends those of the earlier App", async () => {
    const roles = new SimulatedRoles(simulatedRole("postgres"));
    const earlier = await startPod(roles, "earlier");
    await earlier.set(sent(3, ["postgres_b", await verifierOf("earlier")]));
    expect(roles.accepted).toEqual([expect.stringContaining("postgres_b=")]);

    const later = await startPod(roles, "later");
    await later.apply();
    expect(roles.accepted).toHaveLength(1);
    expect(await matchesScramVerifier(roles.roles.get("postgres")?.verifier ?? "", "later")).toBe(true);
    expect(roles.roles.get("postgres_b")).toMatchObject({ canLogin: false, verifier: null });

    // Then the controller decides.
    const verifier = await verifierOf("later");
    expect(await later.set({ ...sent(1, ["postgres", verifier]), id: "two" })).toEqual({ ok: true });
    expect(roles.accepted).toEqual([`postgres=${verifier}`]);
  });

  it("keeps a login that the data has received from a primary with that password", async () => {
    const roles = new SimulatedRoles(simulatedRole("postgres"));
    await (await startPod(roles, "earlier")).set(sent(3, ["postgres", await verifierOf("earlier")]));
    const received = [await verifierOf("later"), await verifierOf("previous")] as const;
    roles.roles.set("postgres", simulatedRole("postgres", { verifier: received[0] }));
    roles.roles.set("postgres_b", simulatedRole("postgres_b", { user: "default", verifier: received[1] }));
    await (await startPod(roles, "later")).apply();
    expect(roles.accepted).toEqual([`postgres=${received[0]}`, `postgres_b=${received[1]}`]);
  });
});

describe("a replica that has not received a rotation", () => {
  it("becomes the primary without waiting for it", async () => {
    const old = await verifierOf("old");
    const roles = new SimulatedRoles(simulatedRole("postgres"));
    const credentials = await startPod(roles, "old");
    await credentials.set(sent(1, ["postgres", old]));
    roles.isStandby = true;
    const next = await verifierOf("next");
    const rotation = credentials.set(sent(2, ["postgres", next]));
    const reads = roles.reads;
    await expect.poll(() => roles.reads).toBeGreaterThan(reads);
    roles.isStandby = false;
    await credentials.apply();
    expect(roles.accepted).toEqual([`postgres=${old}`]);
    await clock.advance(1_000);
    expect(await rotation).toEqual({ ok: true });
    expect(roles.accepted).toEqual([`postgres=${next}`]);
  });

  it("confirms it when it arrives, and rejects it after a while", async () => {
    const roles = new SimulatedRoles(simulatedRole("postgres"));
    roles.isStandby = true;
    const credentials = await startPod(roles, "old");
    const verifier = await verifierOf("next");
    const late = credentials.set(sent(1, ["postgres", verifier]));
    let isOver = false;
    const over = late.catch(String).finally(() => void (isOver = true));
    while (!isOver) await clock.advance(100);
    expect(await over).toContain("has not received the users within 5000 ms");
    roles.roles.set("postgres", simulatedRole("postgres", { verifier }));
    expect(await credentials.set(sent(1, ["postgres", verifier]))).toEqual({ ok: true });
  });
});

describe("a rule with a role", () => {
  it("must name an existing role, or a user that the App keeps", async () => {
    const roles = new SimulatedRoles(simulatedRole("postgres"), simulatedRole("pg_monitor", { canLogin: false }));
    const credentials = await startPod(roles, "p");
    const change = (sequence: number, rule: string, ...others: readonly string[]): Promise<unknown> => {
      const wanted = sent(sequence, ["postgres", "v"], ["a", "v"], ...others.map((name) => [name, "v"] as const));
      const users = wanted.users.map((user) => (user.name === "a" ? { ...user, rules: [rule] } : user));
      return credentials.set({ ...wanted, users });
    };
    expect(await change(1, "role:pg_monitor")).toEqual({ ok: true });
    expect(await change(2, "role:b", "b")).toEqual({ ok: true });
    const problem = { ok: false, error: 'user a: rule "role:b" must name a user or an existing role' };
    expect(await change(3, "role:b")).toEqual(problem);
    expect(roles.accepted).toEqual(["a=v", "b=v", "postgres=v"]);
    expect(await change(3, "role:pg_monitor")).toEqual({ ok: true });
    expect(roles.accepted).toEqual(["a=v", "postgres=v"]);
  });
});
