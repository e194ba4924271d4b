import type { AdmissionStep } from "../admission/admission.ts";
import type { RequestInfo } from "../endpoints/request-info.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import type { Store } from "../storage/store.ts";
import { type Authenticate, createAuthenticator, type TokenAuthenticator } from "./authenticator.ts";
import { ensureDefaultRoles } from "./default-roles.ts";
import { createEscalationGuard } from "./escalation-guard.ts";
import { type Authorizer, createRbacAuthorizer, type Decision } from "./rbac-authorizer.ts";
import { createReviews, type Reviews } from "./reviews.ts";
import { createServiceAccountTokens, type ServiceAccountTokens } from "./service-account-tokens.ts";
import { createStaticTokens } from "./static-tokens.ts";

/** What {@link startAuth} takes. */
export interface AuthOptions {
  readonly store: Store;
  /** PEM: signs the tokens of service accounts (`Pki.tokenKey`). */
  readonly tokenKey: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Makes uids. */
  readonly newId: () => string;
  /** Tokens that are good from start to end, each with the user that it stands for. */
  readonly staticTokens?: Iterable<readonly [token: string, user: UserInfo]>;
  /** Lets requests without credentials in as `system:anonymous`. Default false. */
  readonly anonymous?: boolean;
}

/** Who is who and who may do what, for one server. */
export interface Auth {
  readonly authenticate: Authenticate;
  readonly authorizer: Authorizer;
  readonly tokens: ServiceAccountTokens;
  readonly reviews: Reviews;
  /** Belongs behind the admission steps that change objects. */
  readonly escalationGuard: AdmissionStep;
  /** The authorizer as the pipeline asks it. */
  authorize(user: UserInfo, info: RequestInfo): Promise<Decision>;
  close(): void;
}

/** Makes the default roles where they are missing, and everything that authenticates and authorizes. */
export async function startAuth(options: AuthOptions): Promise<Auth> {
  const { store, now, newId } = options;
  await ensureDefaultRoles(store, { now, newId });
  const tokens = createServiceAccountTokens({ privateKey: options.tokenKey, store, now, newId });
  const staticTokens: readonly TokenAuthenticator[] = [createStaticTokens(options.staticTokens ?? [])];
  const authorizer = createRbacAuthorizer(store);
  return {
    authenticate: createAuthenticator({
      tokens: [...staticTokens, (token) => tokens.verify(token)?.user],
      authorizer,
      now,
      anonymous: options.anonymous ?? false,
    }),
    authorizer,
    tokens,
    reviews: createReviews({ authorizer, tokens, staticTokens, store, now }),
    escalationGuard: createEscalationGuard(authorizer),
    authorize: async (user, info) => authorizer.authorize(user, info.verb, info.isResource ? info : { path: info.path }),
    close: () => authorizer.close(),
  };
}
