import type { DeepReadonly } from "@keelson/api-machinery";
import { serviceAccountUser } from "../auth/authentication/service-account.ts";
import type { RequestInfo } from "../endpoints/request-info.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import type { FlowRules, FlowSchemaObject, FlowSubject } from "./configuration.ts";

/** Whether a FlowSchema matches a request. */
export function matchesFlowSchema(schema: DeepReadonly<FlowSchemaObject>, user: UserInfo, info: RequestInfo): boolean {
  return schema.spec.rules?.some((rules) => matchesRules(rules, user, info)) ?? false;
}

/** Identifies the flow of a request within its schema. */
export function flowDistinguisher(schema: DeepReadonly<FlowSchemaObject>, user: UserInfo, info: RequestInfo): string {
  switch (schema.spec.distinguisherMethod?.type) {
    case "ByUser":
      return user.username;
    case "ByNamespace":
      return info.isResource ? info.namespace : "";
    default:
      return "";
  }
}

function matchesRules(rules: DeepReadonly<FlowRules>, user: UserInfo, info: RequestInfo): boolean {
  if (!rules.subjects?.some((subject) => matchesSubject(subject, user))) return false;
  if (!info.isResource) {
    return (rules.nonResourceRules ?? []).some(
      ({ verbs, nonResourceURLs }) =>
        includes(verbs, info.verb) && nonResourceURLs?.some((pattern) => matchesPath(pattern, info.path)) === true,
    );
  }
  const resource = info.subresource === "" ? info.resource : `${info.resource}/${info.subresource}`;
  return (rules.resourceRules ?? []).some(
    (rule) =>
      includes(rule.verbs, info.verb) &&
      includes(rule.apiGroups, info.group) &&
      includes(rule.resources, resource) &&
      (info.namespace === "" ? rule.clusterScope === true : includes(rule.namespaces, info.namespace)),
  );
}

function matchesSubject(
  { kind, user, group, serviceAccount }: DeepReadonly<FlowSubject>,
  { username, groups }: UserInfo,
): boolean {
  switch (kind) {
    case "User":
      return user?.name === "*" || user?.name === username;
    case "Group":
      return group?.name === "*" || (group !== undefined && groups.includes(group.name));
    case "ServiceAccount": {
      if (serviceAccount === undefined) return false;
      const { namespace, name } = serviceAccount;
      if (name === "*") return username.startsWith(serviceAccountUser({ namespace, name: "" }));
      return username === serviceAccountUser({ namespace, name });
    }
  }
}

function includes(list: readonly string[] | undefined, value: string): boolean {
  return list !== undefined && (list.includes("*") || list.includes(value));
}

function matchesPath(pattern: string, path: string): boolean {
  if (pattern === "*" || pattern === path) return true;
  return pattern.endsWith("/*") && path.startsWith(pattern.slice(0, -1));
}
