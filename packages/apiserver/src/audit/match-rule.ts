import type { RequestInfo, ResourceRequestInfo } from "../endpoints/request-info.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import type { AuditLevel, AuditPolicy, AuditRule, AuditStage, GroupResources } from "./audit-policy.ts";

/** How one request is recorded. */
export interface AuditSettings {
  readonly level: AuditLevel;
  readonly omitStages: ReadonlySet<AuditStage>;
  readonly omitManagedFields: boolean;
}

/** Decides by the first rule that matches. `user` is undefined if authentication failed. */
export function auditSettings(policy: AuditPolicy, user: UserInfo | undefined, info: RequestInfo): AuditSettings {
  const rule = policy.rules.find((each) => matches(each, user, info));
  return {
    level: rule?.level ?? "None",
    omitStages: new Set([...policy.omitStages, ...(rule?.omitStages ?? [])]),
    omitManagedFields: rule?.omitManagedFields ?? policy.omitManagedFields,
  };
}

function matches(rule: AuditRule, user: UserInfo | undefined, info: RequestInfo): boolean {
  const { users, userGroups, verbs, namespaces, resources, nonResourceURLs } = rule;
  if (users.length > 0 && (user === undefined || !users.includes(user.username))) return false;
  if (userGroups.length > 0 && user?.groups.some((group) => userGroups.includes(group)) !== true) return false;
  if (verbs.length > 0 && !verbs.includes(info.verb)) return false;
  if (namespaces.length > 0 || resources.length > 0) return info.isResource && matchesResource(rule, info);
  if (nonResourceURLs.length > 0) return !info.isResource && nonResourceURLs.some((url) => matchesPath(url, info.path));
  return true;
}

function matchesResource({ namespaces, resources }: AuditRule, info: ResourceRequestInfo): boolean {
  if (namespaces.length > 0 && !namespaces.includes(info.namespace)) return false;
  return resources.length === 0 || resources.some((each) => matchesGroup(each, info));
}

function matchesGroup({ group, resources, resourceNames }: GroupResources, info: ResourceRequestInfo): boolean {
  if (group !== "*" && group !== info.group) return false;
  if (resources.length === 0) return true;
  if (resourceNames.length > 0 && !resourceNames.includes(info.name)) return false;
  const { resource, subresource } = info;
  const full = subresource === "" ? resource : `${resource}/${subresource}`;
  return resources.some(
    (each) => each === "*" || each === full || each === `${resource}/*` || (subresource !== "" && each === `*/${subresource}`),
  );
}

function matchesPath(url: string, path: string): boolean {
  return url === "*" || url === path || (url.endsWith("*") && path.startsWith(url.slice(0, -1)));
}
