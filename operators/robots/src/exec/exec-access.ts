import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { type AuthenticatedUser, type ClusterIdentities, ReviewLimitError } from "@keelson/controller/access";
import { group, version } from "../api/names.ts";
import { Task } from "../api/task.ts";
import { equalsSecret } from "../identity/secret.ts";

/** A rejected request, with the status of its response. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
}

interface TaskKey {
  readonly namespace: string;
  readonly name: string;
}

/** A permission on a Task that Kubernetes' RBAC grants. */
export interface TaskPermission {
  readonly verb: "create" | "get";
  readonly subresource: "exec" | "log";
}

/** Options of {@link ExecAccess}. */
export interface ExecAccessOptions {
  readonly identities: Pick<ClusterIdentities, "authenticate" | "isAllowed">;
  /** The token that grants every request without TLS; undefined: TLS is served, and there is none. */
  readonly localToken: string | undefined;
}

/** Authorizes requests: on loopback with the token of this operator, over TLS with the bearer token of a user of the cluster with the permission. */
export class ExecAccess {
  readonly #identities: ExecAccessOptions["identities"];
  readonly #isLocalToken: ((text: Uint8Array) => boolean) | undefined;

  constructor({ identities, localToken }: ExecAccessOptions) {
    this.#identities = identities;
    this.#isLocalToken = localToken === undefined ? undefined : equalsSecret(localToken);
  }

  /** The name of the user, if they have permission on the Task; otherwise why the request is rejected. */
  async authorize(request: IncomingMessage, key: TaskKey, permission: TaskPermission): Promise<{ user: string } | Refusal> {
    const token = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
    if (token === undefined) return { status: 401, message: "a bearer token is required" };
    if (this.#isLocalToken !== undefined) {
      if (this.#isLocalToken(Buffer.from(token))) return { user: "the user of the operator's machine" };
      return { status: 401, message: "the token is not the one in exec-access.json of the running operator" };
    }
    // Tokens of the cluster are accepted over TLS only.
    if (!(request.socket instanceof TLSSocket)) return { status: 401, message: "TLS is required" };
    try {
      const user = await this.#identities.authenticate(token);
      if (user === undefined) return { status: 401, message: "the token is not valid for this cluster, or has expired" };
      if (await this.#isAllowed(user, key, permission)) return { user: user.username };
      return { status: 403, message: deniedMessage(user, key, permission) };
    } catch (error) {
      const status = error instanceof ReviewLimitError ? 429 : 503;
      return { status, message: `could not review the token: ${error instanceof Error ? error.message : String(error)}` };
    }
  }

  #isAllowed(user: AuthenticatedUser, key: TaskKey, permission: TaskPermission): Promise<boolean> {
    return this.#identities.isAllowed(user, {
      resourceAttributes: { group, version, resource: Task.plural, ...permission, ...key },
    });
  }
}

/** In the words of kube-apiserver. */
function deniedMessage(
  { username }: AuthenticatedUser,
  { namespace, name }: TaskKey,
  { verb, subresource }: TaskPermission,
): string {
  return `tasks.${group} "${name}" is forbidden: User "${username}" cannot ${verb} resource "tasks/${subresource}" in API group "${group}" in the namespace "${namespace}"`;
}
