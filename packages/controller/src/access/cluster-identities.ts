import { createHash } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import {
  type PolicyRule,
  type ResourceAttributes,
  type ReviewedUser,
  SubjectAccessReview,
  TokenReview,
} from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { ReviewCache } from "./review-cache.ts";

/** An authenticated user of the cluster. */
export type AuthenticatedUser = ReviewedUser & { readonly username: string };

/** How long answers of the API server are reused: the delay with which a revoked permission or token takes effect. */
const reuseMs = 10_000;
const maxEntries = 4_096;
const maxPending = 128;

/** RBAC rules that {@link ClusterIdentities} needs: those of the ClusterRole `system:auth-delegator`. */
export const accessReviewRules: readonly PolicyRule[] = [
  { apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"] },
  { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] },
];

/** What a permission is about. */
export type AccessAttributes =
  | { readonly resourceAttributes: ResourceAttributes }
  | { readonly nonResourceAttributes: { readonly path: string; readonly verb: string } };

/**
 * The cluster's users and their permissions: a TokenReview authenticates a bearer token, and a SubjectAccessReview authorizes a user. Answers are
 * reused for 10 s, and those about a token never beyond its expiry; a rejected token is reviewed again.
 */
export class ClusterIdentities {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #users: ReviewCache<AuthenticatedUser | undefined>;
  readonly #decisions: ReviewCache<boolean>;

  constructor({ client, clock }: { readonly client: Client; readonly clock: Clock }) {
    this.#client = client;
    this.#clock = clock;
    this.#users = new ReviewCache({ clock, maxEntries, maxPending });
    this.#decisions = new ReviewCache({ clock, maxEntries, maxPending });
  }

  /** The user of a bearer token for the API server; undefined if it is not valid. **Errors**: those of the API, and `ReviewLimitError`. */
  authenticate(token: string): Promise<AuthenticatedUser | undefined> {
    const key = createHash("sha256").update(token).digest("base64");
    return this.#users.get(key, async () => {
      const { status } = await this.#client.create(TokenReview, { metadata: {}, spec: { token } });
      const { username = "" } = status?.user ?? {};
      const isValid = status?.authenticated === true && username !== "";
      // Callers without credentials must not evict users.
      if (!isValid) return { value: undefined, forMs: 0 };
      return { value: { ...status.user, username }, forMs: Math.min(reuseMs, this.#lifeMs(token)) };
    });
  }

  /** Whether a user has a permission. **Errors**: those of the API, and `ReviewLimitError`. */
  isAllowed({ username, uid, groups, extra }: AuthenticatedUser, attributes: AccessAttributes): Promise<boolean> {
    const subject = { user: username, ...(uid && { uid }), ...(groups && { groups }), ...(extra && { extra }) };
    return this.#decisions.get(JSON.stringify([subject, attributes]), async () => {
      const spec = { ...subject, ...attributes };
      const { status } = await this.#client.create(SubjectAccessReview, { metadata: {}, spec });
      return { value: status?.allowed === true, forMs: reuseMs };
    });
  }

  /** Time until the expiry that a token itself names. It only shortens the reuse, so it needs no verification. */
  #lifeMs(token: string): number {
    const [, payload] = token.split(".");
    if (payload === undefined) return reuseMs;
    try {
      const claims: unknown = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
      const expiry = isJsonObject(claims) ? claims.exp : undefined;
      return typeof expiry === "number" ? expiry * 1000 - this.#clock.now() : reuseMs;
    } catch {
      return reuseMs;
    }
  }
}
