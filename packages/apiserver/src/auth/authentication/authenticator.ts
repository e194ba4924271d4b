import { statusError } from "@keelson/api-machinery";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { ClientCertificate } from "./client-certificate.ts";
import { impersonate } from "./impersonation.ts";
import type { Authorizer } from "../rbac/rbac-authorizer.ts";

/** The credentials of a request. */
export interface Credentials {
  /** All values of each header, in order. Names are in lower case. */
  readonly headers: Readonly<Record<string, readonly string[] | undefined>>;
  /** The verified client certificate of the connection. */
  readonly clientCertificate: ClientCertificate | "invalid" | undefined;
}

/**
 * Identifies the user that a request is served as. `onSender` is called with the authenticated sender before impersonation. Throws a
 * StatusError: `Unauthorized`, or `Forbidden` if impersonation is not allowed.
 */
export type Authenticate = (credentials: Credentials, onSender?: (sender: UserInfo) => void) => UserInfo;

/** Returns the user of a token, or undefined if this authenticator does not know the token. */
export type TokenAuthenticator = (token: string) => UserInfo | undefined;

/** What {@link createAuthenticator} takes. */
export interface AuthenticatorOptions {
  /** Tried in order. */
  readonly tokens: readonly TokenAuthenticator[];
  readonly authorizer: Pick<Authorizer, "authorize">;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Accepts requests without credentials as `system:anonymous`, subject to RBAC. Default true, as in kube-apiserver. */
  readonly anonymous?: boolean;
}

/** The group of all authenticated users. */
const authenticatedGroup = "system:authenticated";
/** The user of requests without credentials. */
export const anonymousUser: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/**
 * Authenticates requests by client certificate (CN is the user, O the groups), then by bearer token, then as the anonymous user, and
 * applies impersonation headers. Invalid certificates and tokens are rejected unless other credentials are valid; they are never anonymous.
 * Other schemes of Authorization are ignored.
 */
export function createAuthenticator(options: AuthenticatorOptions): Authenticate {
  const { tokens, authorizer, now, anonymous = true } = options;

  function identify({ headers, clientCertificate }: Credentials): UserInfo | undefined {
    const isPresented = clientCertificate !== undefined;
    if (isPresented && clientCertificate !== "invalid" && clientCertificate.notAfter > now()) {
      return withAuthenticated({ username: clientCertificate.commonName, groups: clientCertificate.organizations });
    }
    const authorization = headers["authorization"]?.[0];
    if (authorization === undefined) return anonymous && !isPresented ? anonymousUser : undefined;
    const token = /^Bearer +([^ ]+)/i.exec(authorization)?.[1];
    // As in kube-apiserver, text after the token is ignored, and an empty token counts as none.
    if (token === undefined) return anonymous && !isPresented ? anonymousUser : undefined;
    for (const authenticate of tokens) {
      const user = authenticate(token);
      if (user !== undefined) return withAuthenticated(user);
    }
    return undefined;
  }

  return (credentials, onSender) => {
    const user = identify(credentials);
    if (user === undefined) throw statusError("Unauthorized", "Unauthorized");
    onSender?.(user);
    return impersonate(user, credentials.headers, authorizer);
  };
}

/** Adds the group of all authenticated users. */
export function withAuthenticated(user: UserInfo): UserInfo {
  return user.groups.includes(authenticatedGroup) ? user : { ...user, groups: [...user.groups, authenticatedGroup] };
}
