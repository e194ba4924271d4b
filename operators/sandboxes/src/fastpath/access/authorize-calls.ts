import type { IncomingHttpHeaders } from "node:http";
import type { DescMethod, Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import type { ResourceAttributes } from "@keelson/api-machinery/kinds";
import { isDns1123LabelName } from "@keelson/api-machinery/validation";
import type { AuthenticatedUser } from "@keelson/controller/access";
import { group } from "../../api/names.ts";
import { Sandbox } from "../../api/sandbox.ts";
import { authenticateCaller, type CallAccess, nameOf, requireProgram, reviewed, staticHolder } from "./authenticate-caller.ts";
import { callRules } from "./call-rules.ts";
import { type CallerConnection, callerConnectionKey } from "./caller-connection.ts";

/** Decides who may make a call. */
export interface CallGate {
  /** The name of the caller. Called before the body of a call is read. **Errors**: `ConnectError`. */
  readonly admit: (headers: IncomingHttpHeaders, connection: CallerConnection) => Promise<string>;
  /** Requires the permission that a call needs. */
  readonly interceptor: Interceptor;
}

/**
 * Requires of each call the static token, or a user of the cluster with the permission that {@link callRules} names.
 *
 * **Errors**: `Unauthenticated`; `PermissionDenied` with the user, the verb and the resource; `Unavailable` if the API server does not
 * decide.
 */
export function authorizeCalls(access: CallAccess): CallGate {
  return {
    async admit(headers, connection) {
      const { authorization = null } = headers;
      if (access.isOpen === true && authorization === null) requireProgram(headers);
      return nameOf(await authenticateCaller(authorization, connection, access));
    },
    interceptor: interceptCalls(access),
  };
}

function interceptCalls(access: CallAccess): Interceptor {
  return (next) => async (request) => {
    const connection = request.contextValues.get(callerConnectionKey);
    const user = await authenticateCaller(request.header.get("authorization"), connection, access);
    connection.onAuthenticated(nameOf(user));
    if (user === staticHolder) return next(request);
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

async function authorize(
  user: AuthenticatedUser,
  method: DescMethod,
  message: Message | undefined,
  { identities }: CallAccess,
): Promise<void> {
  const rule = callRules.get(method);
  if (rule === undefined) throw new ConnectError(`method ${method.name} has no rule of access`, Code.PermissionDenied);
  const { namespace, name } = targetOf(message);
  if (namespace !== everyNamespace && !isDns1123LabelName(namespace))
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

/** The namespace of a call about the objects of all namespaces, as in a SubjectAccessReview. */
const everyNamespace = "";

/** In the words of kube-apiserver. */
function deniedMessage(
  { username }: AuthenticatedUser,
  { verb, resource: plural = Sandbox.plural, subresource, namespace, name }: ResourceAttributes,
): string {
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  return (
    `${plural}.${group}${name === undefined ? "" : ` "${name}"`} is forbidden: User "${username}" cannot ${verb} ` +
    `resource "${resource}" in API group "${group}" ${namespace === everyNamespace ? "at the cluster scope" : `in the namespace "${namespace}"`}`
  );
}

/** The sandbox or volume that a message is about: a field of the message itself, or of its `start`. */
function targetOf(message: Message | undefined): { readonly namespace: string; readonly name: string } {
  const own = fieldsOf(message);
  const { case: kind, value } = fieldsOf(own.request);
  const { namespace, sandboxName, volumeName, allNamespaces } = kind === "start" ? fieldsOf(value) : own;
  if (allNamespaces === true) return { namespace: everyNamespace, name: "" };
  // As the services read them.
  return { namespace: textOf(namespace) || "default", name: textOf(sandboxName) || textOf(volumeName) };
}

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

async function* replay<T>(first: IteratorResult<T>, rest: AsyncIterator<T>): AsyncGenerator<T> {
  if (first.done === true) return;
  yield first.value;
  yield* { [Symbol.asyncIterator]: () => rest };
}
