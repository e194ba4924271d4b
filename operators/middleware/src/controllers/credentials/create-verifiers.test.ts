import { expect, it } from "vitest";
import { createVerifiers } from "./create-verifiers.ts";
import { hashOf } from "./credential-decision.ts";

it("creates the verifiers that a state lacks, one for each user and password", async () => {
  const created: string[] = [];
  const create = async (password: string): Promise<string> => `${password}#${created.push(password)}`;
  const logins = { [hashOf("known")]: { name: "a", verifier: "v" } };
  const state = { sequence: 1, applied: 1, users: { a: { rules: [], current: hashOf("known"), previous: [], logins } } };
  const secrets = new Map([
    ["a", { password: "known", nextPassword: "next" }],
    ["b", { password: "known", nextPassword: "known" }],
    ["c", { password: "next" }],
  ]);
  const verifierOf = await createVerifiers(secrets, state, create);
  expect(created).toEqual(["next", "known", "next"]);
  expect([verifierOf("next", "a"), verifierOf("known", "b"), verifierOf("next", "c")]).toEqual(["next#1", "known#2", "next#3"]);
  expect(() => verifierOf("known", "a")).toThrow("user a: the password has no verifier");
});
