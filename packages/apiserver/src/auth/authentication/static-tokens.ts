import { createHash } from "node:crypto";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { TokenAuthenticator } from "./authenticator.ts";

/**
 * Creates an authenticator for static tokens, such as an administrator's. Tokens are looked up by their digest, so that timing reveals
 * nothing about them. Throws RangeError for a token that is too short.
 */
export function createStaticTokens(tokens: Iterable<readonly [token: string, user: UserInfo]>): TokenAuthenticator {
  const users = new Map<string, UserInfo>();
  for (const [token, user] of tokens) {
    if (token.length < minLength)
      throw new RangeError(`the static token of user ${user.username} must have at least ${minLength} characters`);
    users.set(digest(token), user);
  }
  return (token) => users.get(digest(token));
}

const minLength = 16;

function digest(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
