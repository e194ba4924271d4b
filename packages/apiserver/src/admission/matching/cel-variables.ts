import type { DeepReadonly, JsonObject, KubernetesObject } from "@keelson/api-machinery";
import { type CheckAccess, celAuthorizer, toCel } from "@keelson/api-machinery/server";
import type { Authorizer } from "../../auth/rbac/rbac-authorizer.ts";
import { serviceAccountGroups, serviceAccountUser } from "../../auth/authentication/service-account.ts";
import type { ServedResource, UserInfo } from "../../registry/served-resource.ts";
import type { AdmissionRequest } from "../admission.ts";
import { nameOf, namespaceOf } from "./selectors.ts";

/** What {@link celVariables} takes, in the version that the expressions are written for. */
export interface CelInput {
  readonly request: AdmissionRequest;
  readonly resource: ServedResource;
  readonly object: DeepReadonly<KubernetesObject> | undefined;
  readonly oldObject: DeepReadonly<KubernetesObject> | undefined;
  readonly namespace?: DeepReadonly<KubernetesObject> | undefined;
  readonly authorizer: Pick<Authorizer, "authorize">;
}

/** The variables of the expressions of webhooks and policies, except `params` and `variables`. */
export function celVariables(input: CelInput): Readonly<Record<string, unknown>> {
  const { request, object, oldObject, namespace, authorizer } = input;
  return {
    object: toCel(object),
    oldObject: toCel(oldObject),
    namespaceObject: toCel(namespace),
    request: toCel(requestFields(input)),
    authorizer: celAuthorizer(accessOf(authorizer, request.user), {
      group: request.resource.group,
      resource: request.resource.plural,
      subresource: request.subresource,
      namespace: request.namespace,
      name: nameOf(request),
    }),
  };
}

function requestFields({ request, resource }: CelInput): JsonObject {
  const { operation, subresource, user, isDryRun, options } = request;
  const kindOf = (each: ServedResource): JsonObject => ({
    ...(request.kind ?? { group: each.group, version: each.version, kind: each.kind }),
  });
  const resourceOf = (each: ServedResource): JsonObject => ({
    group: each.group,
    version: each.version,
    resource: each.plural,
  });
  return {
    kind: kindOf(resource),
    resource: resourceOf(resource),
    subResource: subresource,
    requestKind: kindOf(request.resource),
    requestResource: resourceOf(request.resource),
    requestSubResource: subresource,
    name: nameOf(request),
    namespace: namespaceOf(request),
    operation,
    userInfo: userFields(user),
    dryRun: isDryRun,
    ...(options === undefined ? {} : { options }),
  };
}

/** A user as webhooks and expressions see it (authentication/v1 UserInfo). */
export function userFields({ username, uid, groups, extra }: UserInfo): JsonObject {
  return {
    username,
    ...(uid === undefined ? {} : { uid }),
    groups: [...groups],
    ...(extra === undefined
      ? {}
      : { extra: Object.fromEntries(Object.entries(extra).map(([key, value]) => [key, [...value]])) }),
  };
}

/** Access checks of expressions, for the user of the request or for a service account. */
function accessOf(authorizer: Pick<Authorizer, "authorize">, user: UserInfo): CheckAccess {
  return ({ serviceAccount, verb, target }) => {
    const subject: UserInfo =
      serviceAccount === undefined
        ? user
        : {
            username: serviceAccountUser(serviceAccount),
            groups: [...serviceAccountGroups(serviceAccount.namespace), "system:authenticated"],
          };
    return authorizer.authorize(subject, verb, target);
  };
}
