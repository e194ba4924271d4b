import { statusError } from "@keelson/api-machinery";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { ClientCertificate } from "./client-certificate.ts";
import { impersonate } from "./impersonation.ts";
import type { Authorizer } from "../rbac/rbac-authorizer.ts";

/** What a request says about who sent it. */
export interface Credentials {
  /** Names in lower case; every value that was sent, in order. */
  readonly headers: Readonly<Record<string, readonly string[] | undefined>>;
  /** Of the connection, verified. */
  readonly clientCertificate: ClientCertificate | undefined;
}

/** Who sent a request. Throws a StatusError: `Unauthorized`, or `Forbidden` where it may not impersonate. */
export type Authenticate = (credentials: Credentials) => UserInfo;

/** Whose token it is; undefined when it is none of this authenticator's. */
export type TokenAuthenticator = (token: string) => UserInfo | undefined;

/** What {@link createAuthenticator} takes. */
export interface AuthenticatorOptions {
  /** Asked one after the other. */
  readonly tokens: readonly TokenAuthenticator[];
  readonly authorizer: Pick<Authorizer, "authorize">;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Lets requests without credentials in as `system:anonymous`, for whom RBAC decides like for anybody. Default false. */
  readonly anonymous?: boolean;
}

/** The group of everybody who proved an identity. */
export const authenticatedGroup = "system:authenticated";
/** The user that requests without credentials are sent by, where that is allowed at all. */
export const anonymousUser: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/**
 * Tells who sends a request: by client certificate (CN is the user, O the groups), else by bearer token, else nobody. Then
 * applies impersonation headers. A wrong token is refused even where anonymous requests are allowed.
 */
export function createAuthenticator(options: AuthenticatorOptions): Authenticate {
  const { tokens, authorizer, now, anonymous = false } = options;

  function identify({ headers, clientCertificate }: Credentials): UserInfo | undefined {
    if (clientCertificate !== undefined && clientCertificate.notAfter > now()) {
      return withAuthenticated({ username: clientCertificate.commonName, groups: clientCertificate.organizations });
    }
    const authorization = headers["authorization"]?.[0];
    if (authorization === undefined) return anonymous ? anonymousUser : undefined;
    const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
    if (token === undefined) return undefined;
    for (const authenticate of tokens) {
      const user = authenticate(token);
      if (user !== undefined) return withAuthenticated(user);
    }
    return undefined;
  }

  return (credentials) => {
    const user = identify(credentials);
    if (user === undefined) throw statusError("Unauthorized", "Unauthorized");
    return impersonate(user, credentials.headers, authorizer);
  };
}

/** A user with the group of everybody who proved an identity. */
export function withAuthenticated(user: UserInfo): UserInfo {
  return user.groups.includes(authenticatedGroup) ? user : { ...user, groups: [...user.groups, authenticatedGroup] };
}
