import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { type Status, statusError } from "@keelson/api-machinery";
import type { AuthenticatedUser, ClusterIdentities } from "@keelson/controller/access";
import type { KubeletRequest } from "./kubelet-path.ts";

/** The cluster's users and their permissions, as its API server reviews them. */
export type CallerReviews = Pick<ClusterIdentities, "authenticate" | "isAllowed">;

/** The verb of an HTTP method in RBAC rules. */
const verbs: Readonly<Record<string, string>> = {
  GET: "get",
  HEAD: "get",
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/**
 * Authenticates a request by the verified client certificate of its connection, otherwise by its bearer token, and authorizes it with the
 * subresource of this Node, as a kubelet with `Webhook` authorization does. Returns the Status of a rejection, and undefined if the
 * request is allowed.
 */
export async function refusal(
  request: IncomingMessage,
  { subresource }: Pick<KubeletRequest, "subresource">,
  { nodeName, reviews, now }: { readonly nodeName: string; readonly reviews: CallerReviews; readonly now: number },
): Promise<Status | undefined> {
  const caller = certificateUser(request, now) ?? (await tokenUser(request, reviews));
  if (caller === undefined) return statusError("Unauthorized", "Unauthorized").status;
  const verb = verbs[request.method ?? ""] ?? "proxy";
  const resourceAttributes = { verb, version: "v1", resource: "nodes", subresource, name: nodeName };
  if (await reviews.isAllowed(caller, { resourceAttributes })) return undefined;
  const details = `user=${caller.username}, verb=${verb}, resource=nodes, subresource(s)=[${subresource}]`;
  return statusError("Forbidden", `Forbidden (${details})`).status;
}

function certificateUser({ socket }: IncomingMessage, now: number): AuthenticatedUser | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const { subject, valid_to } = socket.getPeerCertificate();
  const username: unknown = subject?.CN;
  // A connection may outlive its certificate, and two common names would be ambiguous.
  if (typeof username !== "string" || username === "" || Date.parse(valid_to) <= now) return undefined;
  const organizations = ([subject.O] as unknown[]).flat().filter((name): name is string => typeof name === "string");
  return { username, groups: [...organizations, "system:authenticated"] };
}

async function tokenUser({ headers }: IncomingMessage, reviews: CallerReviews): Promise<AuthenticatedUser | undefined> {
  const token = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? "")?.[1];
  return token === undefined ? undefined : await reviews.authenticate(token);
}
