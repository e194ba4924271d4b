import { type StatusError, statusError } from "@keelson/api-machinery";
import type { UserInfo } from "../../registry/served-resource.ts";
import { type Authorizer, requireAccess } from "../rbac/rbac-authorizer.ts";
import { serviceAccountGroups, splitServiceAccountUser } from "./service-account.ts";

/** Maximum number of values to impersonate. Each needs an authorization decision. */
const maxValues = 1_000;
const authenticationGroup = "authentication.k8s.io";
const extraPrefix = "impersonate-extra-";

/**
 * Applies the `Impersonate-*` headers of a request. The sender needs permission to `impersonate` every user, group, uid and extra value.
 *
 * **Errors**: `Forbidden`, or `BadRequest` if the headers are malformed or do not name a user.
 */
export function impersonate(
  sender: UserInfo,
  headers: Readonly<Record<string, readonly string[] | undefined>>,
  authorizer: Pick<Authorizer, "authorize">,
): UserInfo {
  const names = Object.keys(headers).filter((name) => name.startsWith("impersonate-"));
  if (names.length === 0) return sender;
  const username = headers["impersonate-user"]?.[0] ?? "";
  const groups = headers["impersonate-group"] ?? [];
  const uid = headers["impersonate-uid"]?.[0];
  const extra = new Map<string, readonly string[]>();
  for (const name of names) {
    if (name.startsWith(extraPrefix)) extra.set(decodeKey(name.slice(extraPrefix.length)), headers[name] ?? []);
  }
  if (username === "") throw withoutUser(groups, uid, extra);
  if (groups.length + [...extra.values()].reduce((sum, values) => sum + values.length, 0) > maxValues) {
    throw statusError("BadRequest", `at most ${maxValues} values can be impersonated`);
  }

  const allow = (target: { group?: string; resource: string; subresource?: string; namespace?: string; name: string }): void =>
    requireAccess(authorizer, sender, "impersonate", { group: "", ...target });
  const account = splitServiceAccountUser(username);
  if (account === undefined) allow({ resource: "users", name: username });
  else allow({ resource: "serviceaccounts", ...account });
  for (const name of groups) allow({ resource: "groups", name });
  if (uid !== undefined) allow({ group: authenticationGroup, resource: "uids", name: uid });
  for (const [key, values] of extra) {
    for (const name of values) allow({ group: authenticationGroup, resource: "userextras", subresource: key, name });
  }

  const effective = account !== undefined && groups.length === 0 ? serviceAccountGroups(account.namespace) : [...groups];
  const isAnonymous = username === "system:anonymous" || effective.includes("system:unauthenticated");
  const implied = isAnonymous ? "system:unauthenticated" : "system:authenticated";
  if (!effective.includes(implied)) effective.push(implied);
  return {
    username,
    groups: effective,
    ...(uid === undefined ? {} : { uid }),
    ...(extra.size === 0 ? {} : { extra: Object.fromEntries(extra) }),
  };
}

/** kube-apiserver's error for impersonation without a user: it lists object references in Go syntax. */
function withoutUser(
  groups: readonly string[],
  uid: string | undefined,
  extra: ReadonlyMap<string, readonly string[]>,
): StatusError {
  const references = [
    ...groups.map((name) => `{Group  ${name}    }`),
    ...[...extra].flatMap(([key, values]) => values.map((value) => `{UserExtra  ${value} ${authenticationGroup}/v1   ${key}}`)),
    ...(uid === undefined ? [] : [`{UID  ${uid} ${authenticationGroup}/v1   }`]),
  ];
  return statusError("BadRequest", `requested [${references.join(" ")}] without impersonating a user`);
}

function decodeKey(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    throw statusError("BadRequest", `Impersonate-Extra-${key}: the key must be percent-encoded`);
  }
}
