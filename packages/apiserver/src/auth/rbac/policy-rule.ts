import { isJsonObject } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";

/** The object or collection of a request. `name` and `namespace` may be absent or empty. */
export interface ResourceTarget {
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** The field selector of a list or watch. RBAC ignores it. */
  readonly fieldSelector?: string | undefined;
}

/** A non-resource path: `/version`. */
export interface PathTarget {
  readonly path: string;
}

/** A resource or a path. Anything with a `resource` is a resource. */
export type AccessTarget = ResourceTarget | PathTarget;

/** Whether a rule allows a verb on a target. The binding, not the rule, determines the namespace. */
export function ruleAllows(rule: PolicyRule, verb: string, target: AccessTarget): boolean {
  if (!includesOrStar(rule.verbs, verb)) return false;
  if (!("resource" in target)) return (rule.nonResourceURLs ?? []).some((pattern) => pathMatches(pattern, target.path));
  if (!includesOrStar(rule.apiGroups, target.group)) return false;
  if (!resourceMatches(rule.resources ?? [], target.resource, target.subresource ?? "")) return false;
  return !rule.resourceNames?.length || rule.resourceNames.includes(target.name ?? "");
}

/**
 * Returns the rules in `wanted` that `held` does not cover, split into single permissions.
 *
 * **Errors**: RangeError if `wanted` expands to too many permissions to compare.
 */
export function uncoveredRules(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): PolicyRule[] {
  const uncovered: PolicyRule[] = [];
  let permissions = 0;
  for (const rule of wanted) {
    // Fast path: often one held rule covers the whole rule (a copied role, cluster-admin).
    if (held.some((owner) => covers(owner, rule))) continue;
    permissions += countPermissions(rule);
    if (permissions > maxPermissions) {
      throw new RangeError(`the rules expand to more than ${maxPermissions} permissions; use fewer names per rule`);
    }
    for (const single of breakDown(rule)) if (!held.some((owner) => covers(owner, single))) uncovered.push(single);
  }
  return uncovered;
}

/** Formats a rule like kube-apiserver: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`. */
export function formatRule(rule: PolicyRule): string {
  const part = (name: string, values: readonly string[] | undefined): string[] =>
    values?.length ? [`${name}:[${values.map((value) => JSON.stringify(value)).join(", ")}]`] : [];
  return `{${[
    ...part("APIGroups", rule.apiGroups),
    ...part("Resources", rule.resources),
    ...part("ResourceNames", rule.resourceNames),
    ...part("NonResourceURLs", rule.nonResourceURLs),
    ...part("Verbs", rule.verbs),
  ].join(", ")}}`;
}

/** The rules of a stored Role. Malformed rules grant nothing. */
export function rulesOf(value: unknown): PolicyRule[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isJsonObject).map((rule) => ({
    verbs: strings(rule["verbs"]),
    apiGroups: strings(rule["apiGroups"]),
    resources: strings(rule["resources"]),
    resourceNames: strings(rule["resourceNames"]),
    nonResourceURLs: strings(rule["nonResourceURLs"]),
  }));
}

const maxPermissions = 20_000;

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((element): element is string => typeof element === "string") : [];
}

function includesOrStar(list: readonly string[] | undefined, value: string): boolean {
  return list !== undefined && (list.includes(value) || list.includes("*"));
}

function resourceMatches(patterns: readonly string[], resource: string, subresource: string): boolean {
  const full = subresource === "" ? resource : `${resource}/${subresource}`;
  return patterns.some(
    (pattern) => pattern === "*" || pattern === full || (subresource !== "" && pattern === `*/${subresource}`),
  );
}

function pathMatches(pattern: string, path: string): boolean {
  if (pattern === "*" || pattern === path) return true;
  return pattern.endsWith("*") && path.startsWith(pattern.slice(0, pattern.search(/\*+$/)));
}

/** Whether one rule allows everything that another does. */
function covers(owner: PolicyRule, rule: PolicyRule): boolean {
  const all = (held: readonly string[] = [], wanted: readonly string[] = []): boolean =>
    held.includes("*") || wanted.every((value) => held.includes(value));
  return (
    all(owner.verbs, rule.verbs) &&
    all(owner.apiGroups, rule.apiGroups) &&
    (rule.resources ?? []).every((wanted) => resourceCovered(owner.resources ?? [], wanted)) &&
    (rule.nonResourceURLs ?? []).every((wanted) => (owner.nonResourceURLs ?? []).some((held) => pathMatches(held, wanted))) &&
    (!owner.resourceNames?.length ||
      (!!rule.resourceNames?.length && rule.resourceNames.every((name) => owner.resourceNames?.includes(name))))
  );
}

function resourceCovered(held: readonly string[], wanted: string): boolean {
  if (held.includes("*") || held.includes(wanted)) return true;
  const slash = wanted.indexOf("/");
  return slash >= 0 && held.includes(`*${wanted.slice(slash)}`);
}

function countPermissions(rule: PolicyRule): number {
  const size = (list: readonly string[] | undefined): number => list?.length ?? 0;
  const names = Math.max(size(rule.resourceNames), 1);
  return rule.verbs.length * (size(rule.apiGroups) * size(rule.resources) * names + size(rule.nonResourceURLs));
}

function* breakDown(rule: PolicyRule): Generator<PolicyRule> {
  for (const verb of rule.verbs) {
    for (const group of rule.apiGroups ?? []) {
      for (const resource of rule.resources ?? []) {
        const single = { verbs: [verb], apiGroups: [group], resources: [resource] };
        if (!rule.resourceNames?.length) yield single;
        else for (const name of rule.resourceNames) yield { ...single, resourceNames: [name] };
      }
    }
    for (const url of rule.nonResourceURLs ?? []) yield { verbs: [verb], nonResourceURLs: [url] };
  }
}
