import { Code, ConnectError, type Interceptor, type StreamRequest, type UnaryRequest } from "@connectrpc/connect";
import type { DescMethod, Message } from "@bufbuild/protobuf";
import { isStatusError } from "@keelson/api-machinery";
import type { ResourceAttributes } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import { isDns1123LabelName } from "@keelson/api-machinery/validation";
import { isTransportError } from "@keelson/client";
import { type AuthenticatedUser, type ClusterIdentities, ReviewLimitError } from "@keelson/controller/access";
import { group } from "../../api/names.ts";
import { Sandbox } from "../../api/sandbox.ts";
import { bearerTokenOf, hasToken } from "../../bearer-token.ts";
import { callRules } from "./call-rules.ts";
import { callerConnectionKey } from "./caller-connection.ts";

/** Callers that the fast path accepts. */
export interface CallAccess {
  /** The token that grants every call, even without TLS; undefined: none. */
  readonly staticToken: string | undefined;
  /** Users of the cluster, over TLS only. */
  readonly identities: Pick<ClusterIdentities, "authenticate" | "isAllowed">;
  readonly clock: Clock;
}

type Call = UnaryRequest | StreamRequest;

/**
 * Requires of each call the static token, or a user of the cluster with the permission that {@link callRules} names.
 *
 * **Errors**: `Unauthenticated`; `PermissionDenied` with the user, the verb and the resource; `Unavailable` if the API server does not
 * decide.
 */
export function authorizeCalls(access: CallAccess): Interceptor {
  return (next) => async (request) => {
    const user = await authenticate(request, access);
    request.contextValues.get(callerConnectionKey).onAuthenticated(typeof user === "string" ? user : user.username);
    if (user === "holder of the static token") return next(request);
    if (!request.stream) {
      await authorize(user, request.method, request.message, access);
      return next(request);
    }
    // The first message of a stream names the sandbox, so that the service sees nothing before the caller is authorized.
    const messages = request.message[Symbol.asyncIterator]();
    const first = await messages.next();
    await authorize(user, request.method, first.done === true ? undefined : first.value, access);
    return next({ ...request, message: replay(first, messages) });
  };
}

async function authenticate(
  { header, contextValues }: Call,
  { staticToken, identities, clock }: CallAccess,
): Promise<AuthenticatedUser | "holder of the static token"> {
  const authorization = header.get("authorization");
  if (staticToken !== undefined && hasToken(authorization, staticToken)) return "holder of the static token";
  const connection = contextValues.get(callerConnectionKey);
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

const plainAdvice = (staticToken: string | undefined): string =>
  staticToken === undefined
    ? "TLS required: connect to https:// with a token or client certificate of the cluster"
    : "bearer token required: authorization: Bearer <content of the token file>";

const unauthenticated = (message: string): ConnectError => new ConnectError(message, Code.Unauthenticated);

async function authorize(
  user: AuthenticatedUser,
  method: DescMethod,
  message: Message | undefined,
  { identities }: CallAccess,
): Promise<void> {
  const rule = callRules.get(method);
  if (rule === undefined) throw new ConnectError(`method ${method.name} has no rule of access`, Code.PermissionDenied);
  const { namespace, name } = targetOf(message);
  if (!isDns1123LabelName(namespace))
    throw new ConnectError(`namespace: ${JSON.stringify(namespace)} is not a valid namespace`, Code.InvalidArgument);
  const { verb, resource = Sandbox.plural, subresource } = rule;
  const attributes: ResourceAttributes = {
    ...{ group, version: Sandbox.version, resource, verb, namespace },
    ...(subresource !== undefined && { subresource }),
    // A create of the object itself has no name yet.
    ...(name !== "" && (verb !== "create" || subresource !== undefined) && { name }),
  };
  if (!(await reviewed(() => identities.isAllowed(user, { resourceAttributes: attributes }))))
    throw new ConnectError(deniedMessage(user, attributes), Code.PermissionDenied);
}

/** In the words of kube-apiserver. */
function deniedMessage(
  { username }: AuthenticatedUser,
  { verb, resource: plural = Sandbox.plural, subresource, namespace, name }: ResourceAttributes,
): string {
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  return (
    `${plural}.${group}${name === undefined ? "" : ` "${name}"`} is forbidden: User "${username}" cannot ${verb} ` +
    `resource "${resource}" in API group "${group}" in the namespace "${namespace}"`
  );
}

/** The sandbox or volume that a message is about: a field of the message itself, or of its `start`. */
function targetOf(message: Message | undefined): { readonly namespace: string; readonly name: string } {
  const own = fieldsOf(message);
  const { case: kind, value } = fieldsOf(own.request);
  const { namespace, sandboxName, volumeName } = kind === "start" ? fieldsOf(value) : own;
  // As the services read them.
  return { namespace: textOf(namespace) || "default", name: textOf(sandboxName) || textOf(volumeName) };
}

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** **Errors**: `Unavailable` or `ResourceExhausted` if a review is not possible. Without a decision, the call is rejected. */
async function reviewed<T>(review: () => Promise<T>): Promise<T> {
  try {
    return await review();
  } catch (error) {
    if (error instanceof ReviewLimitError) throw new ConnectError(error.message, Code.ResourceExhausted);
    if (!isStatusError(error) && !isTransportError(error)) throw error;
    throw new ConnectError(`could not review the credentials: ${error.message}`, Code.Unavailable);
  }
}

async function* replay<T>(first: IteratorResult<T>, rest: AsyncIterator<T>): AsyncGenerator<T> {
  if (first.done === true) return;
  yield first.value;
  yield* { [Symbol.asyncIterator]: () => rest };
}
