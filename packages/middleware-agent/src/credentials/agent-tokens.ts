import { createHash } from "node:crypto";
import { Code, ConnectError, type Interceptor, type ServiceImpl } from "@connectrpc/connect";
import type { ToolInvoker } from "../agent2.generated.ts";
import { CredentialStore } from "./credential-store.ts";

const hashPattern = /^[0-9a-f]{64}$/;
const user = "default";

/** The tokens of the agents of an App: those that this agent accepts, and the one that it uses. Persisted in the volume. */
export class AgentTokens {
  readonly #store: CredentialStore;

  /** `token`: what the Pod was started with. */
  constructor(file: string, token: string) {
    this.#store = new CredentialStore({ file, initial: { password: token } });
  }

  /** Reads the tokens that an earlier agent has persisted. */
  load(): Promise<void> {
    return this.#store.load();
  }

  /** The token with which this agent authenticates at others. */
  get current(): string {
    return this.#store.passwords[0].password;
  }

  /** What the agent reports. */
  get info(): Readonly<Record<"tokens" | "tokensId", string>> {
    return { tokens: String(this.#store.sequence), tokensId: this.#store.id };
  }

  /** Rejects requests without an accepted token. */
  readonly interceptor: Interceptor = (next) => (request) => {
    const [, token = ""] = /^Bearer (.+)$/s.exec(request.header.get("authorization") ?? "") ?? [];
    if (token === "" || !this.#store.accepts(user, token))
      throw new ConnectError("missing or wrong token", Code.Unauthenticated);
    return next(request);
  };

  /** The method that sets them. */
  readonly tools: Pick<ServiceImpl<typeof ToolInvoker>, "setTokens"> = {
    setTokens: async ({ sequence, id, token, tokenHashes }) => {
      if (token === "") throw new ConnectError("token: required", Code.InvalidArgument);
      if (tokenHashes.length === 0 || !tokenHashes.every((hash) => hashPattern.test(hash)))
        throw new ConnectError("token_hashes: must have SHA-256 hashes", Code.InvalidArgument);
      // Other agents could not be called, and have the same tokens.
      if (!tokenHashes.includes(createHash("sha256").update(token).digest("hex")))
        throw new ConnectError("token_hashes: must contain the hash of token", Code.InvalidArgument);
      const users = [{ name: user, rules: [], passwordHashes: tokenHashes }];
      const credentials = { sequence: Number(sequence), ...(id === "" ? {} : { id }), password: token, users };
      const error = this.#store.refusalOf(credentials);
      if (error === undefined) await this.#store.save(credentials);
      return { success: error === undefined, error: error ?? "" };
    },
  };
}
