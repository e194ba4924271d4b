import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { ToolInvoker } from "../agent2.generated.ts";
import type { Outcome } from "../engine.ts";
import type { CredentialEngine } from "./credential-engine.ts";
import { isScramVerifier } from "./scram.ts";

const hashPattern = /^[0-9a-f]{64}$/;

/** The method that sets users; none if the engine has no users. */
export function createCredentialTools(
  engine: CredentialEngine | undefined,
  performing: (act: () => Promise<Outcome>) => Promise<Outcome>,
): Partial<Pick<ServiceImpl<typeof ToolInvoker>, "setCredentials">> {
  if (engine === undefined) return {};
  return {
    async setCredentials({ sequence, id, password, login, users }) {
      if (password === "") throw new ConnectError("password: required", Code.InvalidArgument);
      if (!users.some(({ name }) => name === "default"))
        throw new ConnectError("users: must contain default", Code.InvalidArgument);
      for (const { name, passwordHashes } of users)
        if (passwordHashes.length === 0 || !passwordHashes.every((hash) => hashPattern.test(hash)))
          throw new ConnectError(`users: ${name}: must have SHA-256 hashes`, Code.InvalidArgument);
      for (const { name, logins } of users)
        if (!logins.every(({ verifier }) => isScramVerifier(verifier)))
          throw new ConnectError(`users: ${name}: logins must have SCRAM-SHA-256 verifiers`, Code.InvalidArgument);
      const plain = users.map(({ name, rules, passwordHashes, logins }) => ({
        ...{ name, rules, passwordHashes },
        ...(logins.length === 0 ? {} : { logins: logins.map((each) => ({ name: each.name, verifier: each.verifier })) }),
      }));
      const optional = { ...(id === "" ? {} : { id }), ...(login === "" ? {} : { login }) };
      const outcome = await performing(() => engine.set({ sequence: Number(sequence), ...optional, password, users: plain }));
      return { success: outcome.ok, error: outcome.ok ? "" : outcome.error };
    },
  };
}
