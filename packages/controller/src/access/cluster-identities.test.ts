import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import type { Client } from "@keelson/client";
import { beforeEach, expect, it } from "vitest";
import { ClusterIdentities } from "./cluster-identities.ts";

let clock: VirtualClock;
let reviewed: string[];

beforeEach(() => {
  clock = createVirtualClock();
  reviewed = [];
});

/** Identities of a cluster where tokens that begin with `valid` are. */
function identities(): ClusterIdentities {
  const create = async (_: unknown, { spec: { token } }: { spec: { token: string } }) => {
    reviewed.push(token);
    const isValid = token.startsWith("valid");
    return { status: { authenticated: isValid, user: isValid ? { username: token } : {} } };
  };
  return new ClusterIdentities({ client: { create } as unknown as Client, clock });
}

it("reuses the review of a valid token for 10 s", async () => {
  const users = identities();
  expect([await users.authenticate("valid"), await users.authenticate("valid")]).toMatchObject([
    { username: "valid" },
    { username: "valid" },
  ]);
  expect(reviewed).toEqual(["valid"]);
  await clock.advance(10_000);
  await users.authenticate("valid");
  expect(reviewed).toEqual(["valid", "valid"]);
});

it("does not evict users for tokens that are not valid, however many there are", async () => {
  const users = identities();
  await users.authenticate("valid");
  for (let index = 0; index < 5_000; index++) expect(await users.authenticate(`guess-${index}`)).toBeUndefined();
  await users.authenticate("valid");
  expect(reviewed.filter((token) => token === "valid")).toHaveLength(1);
});
