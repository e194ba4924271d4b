import { isJsonObject } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";

/** What a request acts on. `name` and `namespace` are absent or empty where there is none. */
export interface ResourceTarget {
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

/** A path that is no resource: `/version`. */
export interface PathTarget {
  readonly path: string;
}

/** One or the other; what has a `resource` is a resource, whatever else it has. */
export type AccessTarget = ResourceTarget | PathTarget;

/** Whether a rule allows a verb on a target. The namespace is the binding's matter, not the rule's. */
export function ruleAllows(rule: PolicyRule, verb: string, target: AccessTarget): boolean {
  if (!includesOrStar(rule.verbs, verb)) return false;
  if (!("resource" in target)) return (rule.nonResourceURLs ?? []).some((pattern) => pathMatches(pattern, target.path));
  if (!includesOrStar(rule.apiGroups, target.group)) return false;
  if (!resourceMatches(rule.resources ?? [], target.resource, target.subresource ?? "")) return false;
  return !rule.resourceNames?.length || rule.resourceNames.includes(target.name ?? "");
}

/**
 * Those of `wanted` that `held` does not allow, broken down to single permissions: what somebody would gain by granting
 * them. Empty when everything is covered.
 *
 * @throws RangeError when `wanted` stands for more single permissions than can be compared in reasonable time.
 */
export function uncoveredRules(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): PolicyRule[] {
  const uncovered: PolicyRule[] = [];
  let permissions = 0;
  for (const rule of wanted) {
    // Whole rules are usually covered by one other (a copied role, cluster-admin): no need to take those apart.
    if (held.some((owner) => covers(owner, rule))) continue;
    permissions += countPermissions(rule);
    if (permissions > maxPermissions) {
      throw new RangeError(`rules stand for more than ${maxPermissions} single permissions; use fewer names in one rule`);
    }
    for (const single of breakDown(rule)) if (!held.some((owner) => covers(owner, single))) uncovered.push(single);
  }
  return uncovered;
}

/** A rule in the words of kube-apiserver's refusals: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`. */
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

/** The well-formed rules of a stored Role; what is malformed grants nothing. */
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

/** Whether one rule alone allows all that another does. */
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
