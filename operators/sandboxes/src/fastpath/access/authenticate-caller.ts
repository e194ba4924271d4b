import type { IncomingHttpHeaders } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { isStatusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { isTransportError } from "@keelson/client";
import { type AuthenticatedUser, type ClusterIdentities, ReviewLimitError } from "@keelson/controller/access";
import { bearerTokenOf, hasToken } from "../../bearer-token.ts";
import type { CallerConnection } from "./caller-connection.ts";

/** Callers that the fast path accepts. */
export interface CallAccess {
  /** The token that grants every call, even without TLS; undefined: none. */
  readonly staticToken: string | undefined;
  /** Users of the cluster, over TLS only. */
  readonly identities: Pick<ClusterIdentities, "authenticate" | "isAllowed">;
  readonly clock: Clock;
  /** Whether the programs of this machine may make every call without credentials. Default: false. */
  readonly isOpen?: boolean;
}

/** The static token grants every call. */
export const staticHolder = "holder of the static token";

/** Who makes a call. */
export type Caller = AuthenticatedUser | typeof staticHolder;

/** The name of a caller, which limits count it by. */
export const nameOf = (caller: Caller): string => (typeof caller === "string" ? caller : caller.username);

/** Who makes a call. **Errors**: `Unauthenticated`, and `Unavailable` if the API server does not decide. */
export async function authenticateCaller(
  authorization: string | null,
  connection: CallerConnection,
  { staticToken, identities, clock, isOpen = false }: CallAccess,
): Promise<Caller> {
  if (staticToken !== undefined && hasToken(authorization, staticToken)) return staticHolder;
  if (isOpen && authorization === null) return staticHolder;
  const token = bearerTokenOf(authorization);
  if (!connection.isEncrypted) throw unauthenticated(plainAdvice(staticToken));
  if (token !== undefined) {
    const user = await reviewed(() => identities.authenticate(token));
    if (user === undefined) throw unauthenticated("the bearer token is not valid for this cluster, or has expired");
    return user;
  }
  const certificate = connection.certificate();
  if (certificate === undefined)
    throw unauthenticated(
      "credentials required: a bearer token, or a client certificate that the cluster's authority has signed",
    );
  if (certificate.notAfterMs <= clock.now()) throw unauthenticated("the client certificate has expired");
  return certificate.user;
}

/** **Errors**: `PermissionDenied` if a page in a browser may have made a call that needs no credentials. */
export function requireProgram(headers: IncomingHttpHeaders): void {
  const host = String(headers[":authority"] ?? headers.host ?? "");
  if (headers.origin === undefined && /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/.test(host)) return;
  throw new ConnectError("calls without credentials must come from programs, for a loopback address", Code.PermissionDenied);
}

const plainAdvice = (staticToken: string | undefined): string =>
  staticToken === undefined
    ? "TLS required: connect to https:// with a token or client certificate of the cluster"
    : "bearer token required: authorization: Bearer <content of the token file>";

const unauthenticated = (message: string): ConnectError => new ConnectError(message, Code.Unauthenticated);

/** **Errors**: `Unavailable` or `ResourceExhausted` if a review is not possible. Without a decision, the call is rejected. */
export async function reviewed<T>(review: () => Promise<T>): Promise<T> {
  try {
    return await review();
  } catch (error) {
    if (error instanceof ReviewLimitError) throw new ConnectError(error.message, Code.ResourceExhausted);
    if (!isStatusError(error) && !isTransportError(error)) throw error;
    throw new ConnectError(`could not review the credentials: ${error.message}`, Code.Unavailable);
  }
}
