import { type PolicyRule, SubjectAccessReview, TokenReview } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { createHash, timingSafeEqual } from "node:crypto";

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

/** RBAC rules that {@link reviewedAccess} needs: those of the ClusterRole `system:auth-delegator`. */
export const accessReviewRules: readonly PolicyRule[] = [
  { apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"] },
  { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] },
];

/** How long decisions are cached. */
const allowedMs = 60_000;
const refusedMs = 10_000;
/** Maximum number of cached decisions: clients may send any number of tokens. */
const maxCached = 1_000;

/**
 * Authenticates the token with a TokenReview and authorizes the path, a `nonResourceURL`, with a SubjectAccessReview,
 * as controller-runtime's `WithAuthenticationAndAuthorization` does. Permissions are cached for 60 s, refusals for 10 s.
 *
 * **Errors**: rejects if the API server does not respond or the client lacks {@link accessReviewRules}.
 */
export function reviewedAccess(options: { readonly client: Client; readonly clock: Clock }): AccessFilter {
  const { client, clock } = options;
  const known = new Map<string, { readonly access: Access; readonly until: number }>();
  const review = async ({ token, path, verb }: AccessRequest): Promise<Access> => {
    const answer = await client.create(TokenReview, { metadata: {}, spec: { token: token ?? "" } });
    const { authenticated, user } = answer.status ?? {};
    if (authenticated !== true || user?.username === undefined) return "unauthenticated";
    const { username, uid, groups, extra } = user;
    const subject = { user: username, ...(uid ? { uid } : {}), ...(groups ? { groups } : {}), ...(extra ? { extra } : {}) };
    const spec = { ...subject, nonResourceAttributes: { path, verb } };
    const decision = await client.create(SubjectAccessReview, { metadata: {}, spec });
    return decision.status?.allowed === true ? "allowed" : "forbidden";
  };
  return async (request) => {
    const { token, path, verb } = request;
    if (token === undefined || token === "") return "unauthenticated";
    const key = `${verb} ${path} ${digestOf(token).toString("base64")}`;
    const kept = known.get(key);
    if (kept !== undefined && clock.monotonic() < kept.until) return kept.access;
    const access = await review(request);
    if (known.size >= maxCached) known.clear();
    known.set(key, { access, until: clock.monotonic() + (access === "allowed" ? allowedMs : refusedMs) });
    return access;
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
