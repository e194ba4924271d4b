import { type StatusError, statusError } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import { mastersGroup } from "../certificates/pki.ts";
import { type AccessTarget, ruleAllows } from "./policy-rule.ts";
import { RoleIndex } from "./role-index.ts";

/** Whether something is allowed, and why. */
export interface Decision {
  readonly allowed: boolean;
  /** Why, for reviews; may be empty. */
  readonly reason: string;
}

/** Decides who may do what. Never waits and never reads storage. */
export interface Authorizer {
  authorize(user: UserInfo, verb: string, target: AccessTarget): Decision;
  /** All rules that a user has in `namespace`; with `""`, those that hold everywhere. */
  rulesFor(user: UserInfo, namespace: string): readonly PolicyRule[];
  /** Rules of a role by its key (`roleKey`), aggregated ones included; undefined when there is no such role. */
  rulesOfRole(key: string): readonly PolicyRule[] | undefined;
  close(): void;
}

const denied: Decision = { allowed: false, reason: "" };
const master: Decision = { allowed: true, reason: "" };

/**
 * RBAC (rbac/v1) by the roles and bindings in `store`, followed by a watch: a change counts as soon as the store has told
 * of it. The cost of a decision grows with the bindings of the user, not with those of others. Members of `system:masters` may do
 * everything, whatever is bound.
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
      return user.groups.includes(mastersGroup) ? [...everything, ...rules] : rules;
    },
    rulesOfRole: (key) => index.rules(key),
    close: () => index.close(),
  };
}

/** The refusal of a request, in the words of kube-apiserver. */
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

/** Throws {@link forbidden} unless it is allowed. */
export function requireAccess(
  authorizer: Pick<Authorizer, "authorize">,
  user: UserInfo,
  verb: string,
  target: AccessTarget,
): void {
  if (!authorizer.authorize(user, verb, target).allowed) throw forbidden(user, verb, target);
}

const everything: readonly PolicyRule[] = [
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
];
