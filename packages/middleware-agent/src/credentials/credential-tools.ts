import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { ToolInvoker } from "../agent2.generated.ts";
import type { Outcome } from "../engine.ts";
import type { CredentialEngine } from "./credential-engine.ts";

const hashPattern = /^[0-9a-f]{64}$/;

/** The method that sets users; none if the engine has no users. */
export function createCredentialTools(
  engine: CredentialEngine | undefined,
  performing: (act: () => Promise<Outcome>) => Promise<Outcome>,
): Partial<Pick<ServiceImpl<typeof ToolInvoker>, "setCredentials">> {
  if (engine === undefined) return {};
  return {
    async setCredentials({ sequence, id, password, users }) {
      if (password === "") throw new ConnectError("password: required", Code.InvalidArgument);
      if (!users.some(({ name }) => name === "default"))
        throw new ConnectError("users: must contain default", Code.InvalidArgument);
      for (const { name, passwordHashes } of users)
        if (passwordHashes.length === 0 || !passwordHashes.every((hash) => hashPattern.test(hash)))
          throw new ConnectError(`users: ${name}: must have SHA-256 hashes`, Code.InvalidArgument);
      const plain = users.map(({ name, rules, passwordHashes }) => ({ name, rules, passwordHashes }));
      const outcome = await performing(() =>
        engine.set({ sequence: Number(sequence), ...(id === "" ? {} : { id }), password, users: plain }),
      );
      return { success: outcome.ok, error: outcome.ok ? "" : outcome.error };
    },
  };
}
