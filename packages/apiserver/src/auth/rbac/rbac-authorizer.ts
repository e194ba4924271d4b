import { type StatusError, statusError } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import { mastersGroup } from "../certificates/pki.ts";
import { type AccessTarget, ruleAllows } from "./policy-rule.ts";
import { RoleIndex } from "./role-index.ts";

/** An authorization decision. */
export interface Decision {
  readonly allowed: boolean;
  /** The reason shown in reviews; may be empty. */
  readonly reason: string;
}

/** Authorizes requests. Synchronous, and never reads storage. */
export interface Authorizer {
  authorize(user: UserInfo, verb: string, target: AccessTarget): Decision;
  /** All rules of a user in `namespace`, or the cluster-wide ones for `""`. */
  rulesFor(user: UserInfo, namespace: string): readonly PolicyRule[];
  /** The rules of a role by its key (`roleKey`), including aggregated ones; undefined if it does not exist. */
  rulesOfRole(key: string): readonly PolicyRule[] | undefined;
  close(): void;
}

const denied: Decision = { allowed: false, reason: "" };
const master: Decision = { allowed: true, reason: "" };

/**
 * Creates an RBAC authorizer (rbac/v1) for the roles and bindings in `store`. A watch keeps it current. The cost of a decision grows with
 * the number of the user's own bindings. Members of `system:masters` may do everything.
 */
export function createRbacAuthorizer(store: Pick<Store, "list" | "watch">): Authorizer {
  const index = new RoleIndex(store);

  function* grantsOf(user: UserInfo, namespace: string): Generator<{ role: string; description: string }> {
    const subjects = [`User:${user.username}`, ...user.groups.map((group) => `Group:${group}`)];
    for (const subject of subjects) yield* index.grants(subject, "");
    if (namespace !== "") for (const subject of subjects) yield* index.grants(subject, namespace);
  }

  return {
    authorize(user, verb, target) {
      if (user.groups.includes(mastersGroup)) return master;
      const namespace = "resource" in target ? (target.namespace ?? "") : "";
      for (const grant of grantsOf(user, namespace)) {
        for (const rule of index.rules(grant.role) ?? []) {
          if (ruleAllows(rule, verb, target)) return { allowed: true, reason: `RBAC: allowed by ${grant.description}` };
        }
      }
      return denied;
    },
    rulesFor(user, namespace) {
      const roles = new Set([...grantsOf(user, namespace)].map((grant) => grant.role));
      const rules = [...roles].flatMap((role) => index.rules(role) ?? []);
      if (!user.groups.includes(mastersGroup)) return rules;
      return [...everything, ...rules.filter((rule) => !isEverything(rule))];
    },
    rulesOfRole: (key) => index.rules(key),
    close: () => index.close(),
  };
}

/** The error for a denied request. */
export function forbidden(user: UserInfo, verb: string, target: AccessTarget): StatusError {
  if (!("resource" in target)) {
    return statusError(
      "Forbidden",
      `forbidden: User ${JSON.stringify(user.username)} cannot ${verb} path ${JSON.stringify(target.path)}`,
      {},
    );
  }
  const { group, resource, subresource, namespace, name } = target;
  const what = group === "" ? resource : `${resource}.${group}`;
  const full = subresource ? `${resource}/${subresource}` : resource;
  return statusError(
    "Forbidden",
    `${what}${name ? ` "${name}"` : ""} is forbidden: User ${JSON.stringify(user.username)} cannot ${verb} resource "${full}" in API group ` +
      `"${group}" ${namespace ? `in the namespace "${namespace}"` : "at the cluster scope"}`,
    { ...(name ? { name } : {}), ...(group ? { group } : {}), kind: resource },
  );
}

/** Throws {@link forbidden} unless the request is allowed. */
export function requireAccess(
  authorizer: Pick<Authorizer, "authorize">,
  user: UserInfo,
  verb: string,
  target: AccessTarget,
): void {
  if (!authorizer.authorize(user, verb, target).allowed) throw forbidden(user, verb, target);
}

/** Whether a rule repeats one of {@link everything}, as cluster-admin does. */
function isEverything({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }: PolicyRule): boolean {
  if (!verbs.includes("*")) return false;
  const isAllResources = apiGroups?.includes("*") === true && resources?.includes("*") === true && !resourceNames?.length;
  return isAllResources || nonResourceURLs?.includes("*") === true;
}

const everything: readonly PolicyRule[] = [
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
];
