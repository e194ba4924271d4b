import { createHash } from "node:crypto";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { TokenAuthenticator } from "./authenticator.ts";

/**
 * Tokens that are given at start and stay valid: of an administrator or of a component in the same process. They are
 * looked up by their digest, so that the time it takes says nothing about how much of a guess was right.
 */
export function createStaticTokens(tokens: Iterable<readonly [token: string, user: UserInfo]>): TokenAuthenticator {
  const users = new Map<string, UserInfo>();
  for (const [token, user] of tokens) {
    if (token.length < minLength)
      throw new Error(
        `a static token must have at least ${minLength} characters: it is all that protects the user ${user.username}`,
      );
    users.set(digest(token), user);
  }
  return (token) => users.get(digest(token));
}

const minLength = 16;

function digest(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
