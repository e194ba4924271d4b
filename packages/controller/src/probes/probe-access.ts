import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { createHash, timingSafeEqual } from "node:crypto";

/** What may be asked, and by whom. */
export interface AccessRequest {
  /** Of the header `Authorization`; absent where there is none, or another scheme. */
  readonly token: string | undefined;
  readonly path: string;
  /** In lower case, as rules have it: `get`. */
  readonly verb: string;
}

/** What an {@link AccessFilter} answers. */
export type Access = "allowed" | "unauthenticated" | "forbidden";

/** Decides who may read. Rejects where that cannot be found out. */
export type AccessFilter = (request: AccessRequest) => Promise<Access>;

/** Lets whoever has this token read everything. */
export function tokenAccess(token: string): AccessFilter {
  // Digests are compared, so that neither the time nor a length tells of the token.
  const wanted = digestOf(token);
  return ({ token: given }) =>
    Promise.resolve(given !== undefined && timingSafeEqual(digestOf(given), wanted) ? "allowed" : "unauthenticated");
}

/** The rights that {@link reviewedAccess} needs (those of ClusterRole `system:auth-delegator`). */
export const accessReviewRules: readonly PolicyRule[] = [
  { apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"] },
  { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] },
];

/** How long what the API server said is believed. */
const allowedMs = 60_000;
const refusedMs = 10_000;
/** Answers that are kept; anybody may send any number of tokens. */
const mostKept = 1_000;

/**
 * Asks the API server whose the token is (TokenReview) and whether they may (SubjectAccessReview of the path, a `nonResourceURL`),
 * as controller-runtime's `WithAuthenticationAndAuthorization`. An answer is believed for 60 s, a refusal for 10 s.
 *
 * **Errors**: rejects where the API server gives no answer or does not let the client ask; see {@link accessReviewRules}.
 */
export function reviewedAccess(options: { readonly client: Client; readonly clock: Clock }): AccessFilter {
  const { client, clock } = options;
  const known = new Map<string, { readonly access: Access; readonly until: number }>();
  const review = async ({ token, path, verb }: AccessRequest): Promise<Access> => {
    const answer = await client.create(tokenReviewType, { metadata: {}, spec: { token: token ?? "" } });
    const { authenticated, user } = answer.status ?? {};
    if (authenticated !== true || user?.username === undefined) return "unauthenticated";
    const { username, uid, groups, extra } = user;
    const subject = { user: username, ...(uid ? { uid } : {}), ...(groups ? { groups } : {}), ...(extra ? { extra } : {}) };
    const spec = { ...subject, nonResourceAttributes: { path, verb } };
    const decision = await client.create(accessReviewType, { metadata: {}, spec });
    return decision.status?.allowed === true ? "allowed" : "forbidden";
  };
  return async (request) => {
    const { token, path, verb } = request;
    if (token === undefined || token === "") return "unauthenticated";
    const key = `${verb} ${path} ${digestOf(token).toString("base64")}`;
    const kept = known.get(key);
    if (kept !== undefined && clock.monotonic() < kept.until) return kept.access;
    const access = await review(request);
    if (known.size >= mostKept) known.clear();
    known.set(key, { access, until: clock.monotonic() + (access === "allowed" ? allowedMs : refusedMs) });
    return access;
  };
}

/** The token of a header `Authorization: Bearer ...`. */
export function bearerTokenOf(header: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(header ?? "")?.[1];
}

/**
 * Whether a header `Host` names this server by an address, as `localhost` or by one of `names`. A page whose own name was made to
 * resolve to this machine (DNS rebinding) sends that name, and may not read what is here.
 */
export async function isOwnHost(header: string | undefined, names: readonly string[]): Promise<boolean> {
  const { isIP } = await import("node:net");
  const host = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(header ?? "");
  const name = (host?.[1] ?? host?.[2] ?? "").toLowerCase();
  return isIP(name) !== 0 || name === "localhost" || names.includes(name);
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

interface TokenReview extends KubernetesObject {
  spec?: { token?: string };
  status?: {
    authenticated?: boolean;
    user?: { username?: string; uid?: string; groups?: string[]; extra?: Record<string, string[]> };
  };
}

const tokenReviewType: ResourceType<TokenReview> = {
  group: "authentication.k8s.io",
  version: "v1",
  kind: "TokenReview",
  plural: "tokenreviews",
  scope: "Cluster",
};

interface SubjectAccessReview extends KubernetesObject {
  spec?: {
    user?: string;
    uid?: string;
    groups?: string[];
    extra?: Record<string, string[]>;
    nonResourceAttributes?: { path?: string; verb?: string };
  };
  status?: { allowed?: boolean };
}

const accessReviewType: ResourceType<SubjectAccessReview> = {
  group: "authorization.k8s.io",
  version: "v1",
  kind: "SubjectAccessReview",
  plural: "subjectaccessreviews",
  scope: "Cluster",
};
