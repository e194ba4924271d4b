import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { createHash, timingSafeEqual } from "node:crypto";
import { ClusterIdentities } from "../access/cluster-identities.ts";

/** A request to authorize. */
export interface AccessRequest {
  /** Bearer token of the header `Authorization`; absent without the header or with another scheme. */
  readonly token: string | undefined;
  readonly path: string;
  /** In lower case, as in RBAC rules: `get`. */
  readonly verb: string;
}

/** Decision of an {@link AccessFilter}. */
export type Access = "allowed" | "unauthenticated" | "forbidden";

/** Authorizes requests. Rejects if the decision is not possible. */
export type AccessFilter = (request: AccessRequest) => Promise<Access>;

/** Allows requests with this token. */
export function tokenAccess(token: string): AccessFilter {
  // Compare digests, so that neither time nor length reveals the token.
  const wanted = digestOf(token);
  return ({ token: given }) =>
    Promise.resolve(given !== undefined && timingSafeEqual(digestOf(given), wanted) ? "allowed" : "unauthenticated");
}

/**
 * Authenticates the token with a TokenReview and authorizes the path, a `nonResourceURL`, with a SubjectAccessReview,
 * as controller-runtime's `WithAuthenticationAndAuthorization` does. Decisions are reused for 10 s.
 *
 * **Errors**: rejects if the API server does not respond or the client lacks `accessReviewRules`.
 */
export function reviewedAccess(options: { readonly client: Client; readonly clock: Clock }): AccessFilter {
  const identities = new ClusterIdentities(options);
  return async ({ token, path, verb }) => {
    const user = token === undefined || token === "" ? undefined : await identities.authenticate(token);
    if (user === undefined) return "unauthenticated";
    return (await identities.isAllowed(user, { nonResourceAttributes: { path, verb } })) ? "allowed" : "forbidden";
  };
}

/** The token of a header `Authorization: Bearer ...`. */
export function bearerTokenOf(header: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(header ?? "")?.[1];
}

/**
 * Whether a header `Host` contains an IP address, `localhost` or one of `names`. A web page whose host name was rebound to this
 * machine (DNS rebinding) sends its own name, and must be refused.
 */
export async function isTrustedHost(header: string | undefined, names: readonly string[]): Promise<boolean> {
  const { isIP } = await import("node:net");
  const host = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(header ?? "");
  const name = (host?.[1] ?? host?.[2] ?? "").toLowerCase();
  return isIP(name) !== 0 || name === "localhost" || names.includes(name);
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
