import { type DeepReadonly, jsonEquals, type KubernetesObject, statusError, type StatusError } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { UserInfo } from "../../registry/served-resource.ts";
import { mastersGroup } from "../certificates/pki.ts";
import { formatRule, rulesOf, uncoveredRules } from "./policy-rule.ts";
import type { Authorizer } from "./rbac-authorizer.ts";
import { rbacGroup, roleOfBinding } from "./role-index.ts";

/** A write to a role or binding. */
export interface RoleWrite {
  /** `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`. Others are always allowed. */
  readonly plural: string;
  readonly object: DeepReadonly<KubernetesObject>;
  /** The stored object; undefined on create. */
  readonly old?: DeepReadonly<KubernetesObject> | undefined;
}

/**
 * Checks whether a write to a role or binding would grant permissions that the user does not hold, unless the user may `escalate` or `bind` the
 * role. Returns the error, or undefined if the write is allowed. Call it after authorization for every write in the group
 * `rbac.authorization.k8s.io`.
 */
export function escalation(authorizer: Authorizer, user: UserInfo, write: RoleWrite): StatusError | undefined {
  if (user.groups.includes(mastersGroup)) return undefined;
  switch (write.plural) {
    case "roles":
    case "clusterroles":
      return roleEscalation(authorizer, user, write);
    case "rolebindings":
    case "clusterrolebindings":
      return bindingEscalation(authorizer, user, write);
    default:
      return undefined;
  }
}

function roleEscalation(authorizer: Authorizer, user: UserInfo, write: RoleWrite): StatusError | undefined {
  const name = write.object.metadata.name ?? "";
  const namespace = write.plural === "roles" ? (write.object.metadata.namespace ?? "") : "";
  const { rules, aggregationRule } = write.object as { rules?: unknown; aggregationRule?: unknown };
  const old = write.old as { rules?: unknown; aggregationRule?: unknown } | undefined;
  // Unchanged rules grant nothing new, so labels may be updated.
  if (old && jsonEquals(old.rules ?? [], rules ?? []) && jsonEquals(old.aggregationRule, aggregationRule)) return undefined;
  const target = { group: rbacGroup, resource: write.plural, namespace, name };
  if (authorizer.authorize(user, "escalate", target).allowed) return undefined;
  const held = authorizer.rulesFor(user, namespace);
  // An aggregating role may grant the rules of roles that do not exist yet.
  if (
    aggregationRule != null &&
    !jsonEquals(old?.aggregationRule, aggregationRule) &&
    uncoveredRules(held, everything).length > 0
  ) {
    return refusal(write, "must have cluster-admin privileges to use an aggregationRule");
  }
  return gain(user, write, held, rulesOf(rules));
}

function bindingEscalation(authorizer: Authorizer, user: UserInfo, write: RoleWrite): StatusError | undefined {
  const namespace = write.plural === "rolebindings" ? (write.object.metadata.namespace ?? "") : "";
  const { roleRef, subjects } = write.object as { roleRef?: unknown; subjects?: unknown };
  const old = write.old as { roleRef?: unknown; subjects?: unknown } | undefined;
  if (old && jsonEquals(old.roleRef, roleRef) && jsonEquals(old.subjects ?? [], subjects ?? [])) return undefined;
  const role = roleOfBinding(write.object, namespace);
  if (role === undefined) return refusal(write, "roleRef does not name a role that can be bound here");
  const resource = role.kind === "Role" ? "roles" : "clusterroles";
  const target = { group: rbacGroup, resource, namespace, name: role.name };
  if (authorizer.authorize(user, "bind", target).allowed) return undefined;
  const rules = authorizer.rulesOfRole(role.key);
  if (rules === undefined) {
    return statusError("NotFound", `${resource}.${rbacGroup} ${JSON.stringify(role.name)} not found`, {
      name: role.name,
      group: rbacGroup,
      kind: resource,
    });
  }
  return gain(user, write, authorizer.rulesFor(user, namespace), rules);
}

function gain(
  user: UserInfo,
  write: RoleWrite,
  held: readonly PolicyRule[],
  wanted: readonly PolicyRule[],
): StatusError | undefined {
  let missing: readonly PolicyRule[];
  try {
    missing = uncoveredRules(held, wanted);
  } catch (error) {
    if (error instanceof RangeError) return refusal(write, error.message);
    throw error;
  }
  if (missing.length === 0) return undefined;
  const shown = missing.slice(0, maxShownRules).map(formatRule);
  if (missing.length > maxShownRules) shown.push(`... and ${missing.length - maxShownRules} more`);
  return refusal(
    write,
    `user ${JSON.stringify(user.username)} (groups=${JSON.stringify(user.groups)}) is attempting to grant RBAC permissions not ` +
      `currently held:\n${shown.join("\n")}`,
  );
}

/** Maximum number of rules listed in an error. */
const maxShownRules = 50;

const everything: readonly PolicyRule[] = [
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
];

function refusal(write: RoleWrite, why: string): StatusError {
  const name = write.object.metadata.name ?? "";
  return statusError("Forbidden", `${write.plural}.${rbacGroup} ${JSON.stringify(name)} is forbidden: ${why}`, {
    name,
    group: rbacGroup,
    kind: write.plural,
  });
}
