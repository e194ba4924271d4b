import type { DeepReadonly } from "@keelson/api-machinery";
import {
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import type { FlowSchemaObject } from "../../../flowcontrol/configuration.ts";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { type Causes, eachItem } from "../../causes.ts";

/** Validates a FlowSchema. */
export function* flowSchemaCauses({ metadata, spec }: DeepReadonly<FlowSchemaObject>): Causes {
  const { matchingPrecedence = 0, distinguisherMethod, rules = [] } = spec;
  const level = textAt(spec, "priorityLevelConfiguration", "name");
  yield* precedenceCauses(matchingPrecedence, metadata.name ?? "");
  yield* distinguisherMethod === undefined ? [] : methodCauses(distinguisherMethod.type);
  yield* level === ""
    ? [requiredCause("spec.priorityLevelConfiguration.name", "must reference a priority level")]
    : check.dnsSubdomain("spec.priorityLevelConfiguration.name", level);
  yield* eachItem(rules, (rule, index) => ruleCauses(rule, `spec.rules[${index}]`));
}

function precedenceCauses(precedence: number, name: string): StatusCause[] {
  const invalid = (detail: string): StatusCause => invalidCause("spec.matchingPrecedence", precedence, detail);
  return [
    ...(precedence < 1 ? [invalid("must be a positive value")] : []),
    ...(precedence > 10_000 ? [invalid("must not be greater than 10000")] : []),
    ...(precedence === 1 && name !== "exempt" ? [invalid("only the schema named 'exempt' may have matchingPrecedence 1")] : []),
  ];
}

function methodCauses(type = ""): StatusCause[] {
  const supported = ["ByNamespace", "ByUser"];
  return supported.includes(type) ? [] : [notSupportedCause("spec.distinguisherMethod.type", { Type: type }, supported)];
}

function* ruleCauses(rule: unknown, path: string): Causes {
  const [subjects, resources, others] = ["subjects", "resourceRules", "nonResourceRules"].map((field) => listAt(rule, field));
  yield* subjects?.length === 0 ? [requiredCause(`${path}.subjects`, "subjects must contain at least one value")] : [];
  yield* eachItem(subjects ?? [], (subject, index) => subjectCauses(subject, `${path}.subjects[${index}]`));
  yield* resources?.length === 0 && others?.length === 0
    ? [requiredCause(path, "at least one of resourceRules and nonResourceRules has to be non-empty")]
    : [];
  yield* eachItem(resources ?? [], (each, index) => resourceRuleCauses(each, `${path}.resourceRules[${index}]`));
  yield* eachItem(others ?? [], (each, index) => nonResourceRuleCauses(each, `${path}.nonResourceRules[${index}]`));
}

/** The fields of a subject by its kind. */
const subjectFields = { ServiceAccount: "serviceAccount", User: "user", Group: "group" } as const;

function* subjectCauses(subject: unknown, path: string): Causes {
  const kind = textAt(subject, "kind");
  if (kind !== "ServiceAccount" && kind !== "User" && kind !== "Group") {
    yield notSupportedCause(`${path}.kind`, kind, ["Group", "ServiceAccount", "User"]);
    return;
  }
  const field = subjectFields[kind];
  const own = valueAt(subject, field);
  yield* own === undefined
    ? [requiredCause(`${path}.${field}`, `${field} is required when subject kind is '${kind}'`)]
    : kind === "ServiceAccount"
      ? accountCauses(own, `${path}.${field}`)
      : check.nonEmpty(`${path}.${field}.name`, textAt(own, "name"));
  for (const [other, name] of Object.entries(subjectFields)) {
    yield;
    if (name === field || valueAt(subject, name) === undefined) continue;
    yield forbiddenCause(`${path}.${name}`, `${name} is forbidden when subject kind is not '${other}'`);
  }
}

function accountCauses(account: unknown, path: string): StatusCause[] {
  const [name, namespace] = [textAt(account, "name"), textAt(account, "namespace")];
  const faults = name === "*" ? [] : dns1123SubdomainFaults(name);
  return [
    ...(name === "" ? [requiredCause(`${path}.name`)] : faults.map((fault) => invalidCause(`${path}.name`, name, fault))),
    ...(namespace === ""
      ? [requiredCause(`${path}.namespace`, "must specify namespace for service account")]
      : dns1123LabelFaults(namespace).map((fault) => invalidCause(`${path}.namespace`, namespace, fault))),
  ];
}

const supportedVerbs = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

function verbCauses(rule: unknown, path: string): StatusCause[] {
  const given = listAt(rule, "verbs").map(String);
  if (given.length === 0) return [requiredCause(path, "verbs must contain at least one value")];
  if (given.includes("*")) return wildcardCauses(given, path, "verbs");
  return given.every((verb) => supportedVerbs.includes(verb)) ? [] : [notSupportedCause(path, given, supportedVerbs)];
}

function wildcardCauses(values: readonly string[], path: string, what: string): StatusCause[] {
  if (values.length < 2 || !values.includes("*")) return [];
  return [invalidCause(path, values, `if '*' is present, must not specify other ${what}`)];
}

function* resourceRuleCauses(rule: unknown, path: string): Causes {
  const [groups, resources] = ["apiGroups", "resources"].map((field) => listAt(rule, field).map(String));
  yield* verbCauses(rule, `${path}.verbs`);
  yield* groups?.length === 0
    ? [requiredCause(`${path}.apiGroups`, "resource rules must supply at least one api group")]
    : wildcardCauses(groups ?? [], `${path}.apiGroups`, "api groups");
  yield* resources?.length === 0
    ? [requiredCause(`${path}.resources`, "resource rules must supply at least one resource")]
    : wildcardCauses(resources ?? [], `${path}.resources`, "resources");
  yield* namespaceCauses(rule, `${path}.namespaces`);
}

function* namespaceCauses(rule: unknown, path: string): Causes {
  const namespaces = listAt(rule, "namespaces").map(String);
  if (namespaces.length === 0 && valueAt(rule, "clusterScope") !== true) {
    const detail = "resource rules that are not cluster scoped must supply at least one namespace";
    yield requiredCause(path, detail);
    return;
  }
  if (namespaces.includes("*")) {
    yield* wildcardCauses(namespaces, path, "namespaces");
    return;
  }
  const intro = "each member of this list must be '*' or a DNS-1123 label; ";
  yield* eachItem(namespaces, (namespace, index) =>
    dns1123LabelFaults(namespace).map((fault) => invalidCause(`${path}[${index}]`, namespace, intro + fault)),
  );
}

function* nonResourceRuleCauses(rule: unknown, path: string): Causes {
  const at = `${path}.nonResourceURLs`;
  const urls = listAt(rule, "nonResourceURLs").map(String);
  yield* verbCauses(rule, `${path}.verbs`);
  yield* urls.length === 0 ? [requiredCause(at, "nonResourceURLs must contain at least one value")] : [];
  yield* urls.includes("*")
    ? wildcardCauses(urls, at, "non-resource URLs")
    : eachItem(urls, (url, index) => urlCauses(url, `${at}[${index}]`));
}

function urlCauses(url: string, path: string): StatusCause[] {
  const invalid = (detail: string): StatusCause[] => [invalidCause(path, url, detail)];
  if (url === "") return invalid("must not be empty");
  if (url === "/") return [];
  if (!url.startsWith("/")) return invalid("must start with slash");
  if (url.includes(" ")) return invalid("must not contain white-space");
  if (url.includes("//")) return invalid("must not contain double slash");
  if (!url.includes("*")) return [];
  const isSuffix = url.endsWith("/*") && url.indexOf("*") === url.length - 1;
  return isSuffix ? [] : invalid("wildcard can only do suffix matching");
}
