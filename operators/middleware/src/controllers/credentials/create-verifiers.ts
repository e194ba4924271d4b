import { randomBytes } from "node:crypto";
import { createScramVerifier } from "@keelson/middleware-agent";
import { type CredentialObservation, hashOf } from "./credential-decision.ts";
import type { CredentialState } from "./credential-state.ts";
import type { StoredPassword } from "./publication.ts";

const createSalted = (password: string): Promise<string> => createScramVerifier(password, randomBytes(16));

/**
 * Creates the verifiers of passwords that a state lacks. A decision is synchronous, and a verifier takes more than a millisecond: an App with
 * many users would delay the others.
 */
export async function createVerifiers(
  secrets: ReadonlyMap<string, StoredPassword>,
  state: CredentialState | undefined,
  create: (password: string) => Promise<string> = createSalted,
): Promise<CredentialObservation["createVerifier"]> {
  const missing = [...secrets].flatMap(([user, { password, nextPassword }]) =>
    [password, nextPassword ?? password]
      .filter((each, at, both) => both.indexOf(each) === at && state?.users[user]?.logins?.[hashOf(each)] === undefined)
      .map((each) => [keyOf(each, user), each] as const),
  );
  const created = new Map(await Promise.all(missing.map(async ([key, password]) => [key, await create(password)] as const)));
  return (password, user) => {
    const verifier = created.get(keyOf(password, user));
    if (verifier === undefined) throw new TypeError(`user ${user}: the password has no verifier`);
    return verifier;
  };
}

const keyOf = (password: string, user: string): string => JSON.stringify([user, password]);
