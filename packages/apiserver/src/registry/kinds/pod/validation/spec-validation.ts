import {
  dns1123SubdomainFaults,
  dns1123SubdomainWithUnderscoreFaults,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  labelValueFaults,
  notSupportedCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
  tooLongCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../../object-fields.ts";
import { affinityCauses, matchLabelKeysCauses } from "./affinity-validation.ts";
import { containerCauses } from "./container-validation.ts";
import { fileVolumeCauses } from "./environment-validation.ts";
import { podClaimsOf, podResourceCauses, resourceCauses } from "./resource-validation.ts";
import { podSecurityCauses } from "./security-validation.ts";
import { volumeCauses } from "./volume-validation.ts";
import { type Causes, eachItem } from "../../../causes.ts";

/** Validates a PodTemplateSpec at `path`: labels, annotations and spec. */
export function* podTemplateCauses(template: unknown, path: string): Causes {
  yield* check.labels(`${path}.labels`, valueAt(template, "metadata", "labels"));
  yield* check.annotations(`${path}.annotations`, valueAt(template, "metadata", "annotations"));
  yield* podSpecCauses(valueAt(template, "spec"), `${path}.spec`);
  if (listAt(template, "spec", "ephemeralContainers").length > 0) {
    yield forbiddenCause(`${path}.spec.ephemeralContainers`, "ephemeral containers not allowed in pod template");
  }
}

/** Validates a PodSpec at `path`. */
export function* podSpecCauses(spec: unknown, path: string): Causes {
  if (spec === undefined) {
    // Without a spec there are no defaults: report what the client has to write.
    yield requiredCause(`${path}.containers`);
    return;
  }
  const volumeFaults: StatusCause[] = [];
  for (const cause of volumeCauses(spec, path)) {
    if (cause !== undefined) volumeFaults.push(cause);
    yield cause;
  }
  yield* resourceClaimCauses(spec, `${path}.resourceClaims`);
  yield* containerCauses(spec, path, volumeFaults);
  const claims = podClaimsOf(listAt(spec, "resourceClaims").flatMap((claim) => textAt(claim, "name") || []));
  yield* podResourceCauses(spec, `${path}.resources`, claims);
  yield* check.oneOf(`${path}.restartPolicy`, valueAt(spec, "restartPolicy"), ["Always", "OnFailure", "Never"]);
  yield* check.oneOf(`${path}.dnsPolicy`, valueAt(spec, "dnsPolicy"), dnsPolicies);
  yield* check.labels(`${path}.nodeSelector`, valueAt(spec, "nodeSelector"));
  yield* podSecurityCauses(spec, `${path}.securityContext`);
  yield* affinityCauses(valueAt(spec, "affinity"), `${path}.affinity`);
  yield* dnsConfigCauses(spec, `${path}.dnsConfig`);
  yield* gateCauses(spec, path);
  yield* spreadConstraintCauses(listAt(spec, "topologySpreadConstraints"), `${path}.topologySpreadConstraints`);
  yield* hostNameCauses(spec, `${path}.hostnameOverride`);
  yield* check.dnsSubdomain(`${path}.serviceAccountName`, valueAt(spec, "serviceAccountName"));
  yield* check.dnsSubdomain(`${path}.nodeName`, valueAt(spec, "nodeName"));
  const deadline = valueAt(spec, "activeDeadlineSeconds");
  if (typeof deadline === "number" && (deadline < 1 || deadline > 2 ** 31 - 1)) {
    const detail = "must be between 1 and 2147483647, inclusive";
    yield invalidCause(`${path}.activeDeadlineSeconds`, deadline, detail);
  }
  for (const field of ["hostname", "subdomain"]) {
    if (textAt(spec, field) !== "") yield* check.dnsLabel(`${path}.${field}`, valueAt(spec, field));
  }
  for (const [index, toleration] of listAt(spec, "tolerations").entries()) {
    yield;
    yield* tolerationCauses(toleration, `${path}.tolerations[${index}]`);
  }
  yield* hostAliasCauses(spec, `${path}.hostAliases`);
  yield* check.dnsSubdomain(`${path}.priorityClassName`, valueAt(spec, "priorityClassName"));
  const runtimeClass = valueAt(spec, "runtimeClassName");
  if (typeof runtimeClass === "string") {
    const faults = dns1123SubdomainFaults(runtimeClass);
    yield* faults.map((fault) => invalidCause(`${path}.runtimeClassName`, runtimeClass, fault));
  }
  const preemption = valueAt(spec, "preemptionPolicy");
  if (preemption === "") yield requiredCause(`${path}.preemptionPolicy`);
  else yield* check.oneOf(`${path}.preemptionPolicy`, preemption, ["PreemptLowerPriority", "Never"]);
  yield* resourceCauses({ limits: mapAt(spec, "overhead") }, `${path}.overhead`);
  yield* systemCauses(spec, `${path}.os`);
  yield* fileVolumeCauses(spec, path);
}

function* hostAliasCauses(spec: unknown, path: string): Causes {
  for (const [index, alias] of listAt(spec, "hostAliases").entries()) {
    yield;
    const ip = textAt(alias, "ip");
    if (!check.isIpAddress(ip)) yield invalidCause(`${path}[${index}].ip`, ip, addressRule);
    for (const [at, name] of listAt(alias, "hostnames").entries()) {
      yield;
      if (typeof name !== "string") continue;
      const field = `${path}[${index}].hostnames[${at}]`;
      yield* dns1123SubdomainFaults(name).map((fault) => invalidCause(field, name, fault));
    }
  }
}

const maxHostName = 64;

function hostNameCauses(spec: unknown, path: string): StatusCause[] {
  const name = valueAt(spec, "hostnameOverride");
  if (typeof name !== "string") return [];
  const causes: StatusCause[] = [];
  if (valueAt(spec, "setHostnameAsFQDN") === true) {
    causes.push(forbiddenCause(path, "may not be specified when setHostnameAsFQDN is true"));
  }
  if (valueAt(spec, "hostNetwork") === true) {
    causes.push(forbiddenCause(path, "may not be specified when hostNetwork is true"));
  }
  if (name.length > maxHostName) causes.push(tooLongCause(path, maxHostName));
  return [...causes, ...dns1123SubdomainFaults(name).map((fault) => invalidCause(path, name, fault))];
}

const dnsPolicies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

function systemCauses(spec: unknown, path: string): StatusCause[] {
  if (valueAt(spec, "os") === undefined) return [];
  const name = textAt(spec, "os", "name");
  return name === "" ? [requiredCause(`${path}.name`)] : check.oneOf(path, name, ["linux", "windows"]);
}

const addressRule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const maxNameservers = 3;
const maxSearches = 32;
const maxSearchesLength = 2048;

function* dnsConfigCauses(spec: unknown, path: string): Causes {
  const config = valueAt(spec, "dnsConfig");
  const servers = listAt(config, "nameservers");
  if (valueAt(spec, "dnsPolicy") === "None") {
    if (config === undefined) {
      yield requiredCause(path, "must provide `dnsConfig` when `dnsPolicy` is None");
      return;
    }
    const detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
    if (servers.length === 0) {
      yield requiredCause(`${path}.nameservers`, detail);
      return;
    }
  }

  if (servers.length > maxNameservers) {
    yield invalidCause(`${path}.nameservers`, servers, `must not have more than ${maxNameservers} nameservers`);
  }
  for (const [index, server] of servers.entries()) {
    yield;
    if (typeof server === "string" && check.isIpAddress(server)) continue;
    yield invalidCause(`${path}.nameservers[${index}]`, server, addressRule);
  }
  const searches = listAt(config, "searches");
  if (searches.length > maxSearches) {
    yield invalidCause(`${path}.searches`, searches, `must not have more than ${maxSearches} search paths`);
  }
  if (searches.join(" ").length > maxSearchesLength) {
    const detail = `must not have more than ${maxSearchesLength} characters (including spaces) in the search list`;
    yield invalidCause(`${path}.searches`, searches, detail);
  }
  for (const [index, search] of searches.entries()) {
    yield;
    if (typeof search !== "string" || search === ".") continue;
    const domain = search.replace(/\.$/, "");
    const faults = dns1123SubdomainWithUnderscoreFaults(domain);
    yield* faults.map((fault) => invalidCause(`${path}.searches[${index}]`, domain, fault));
  }
  for (const [index, option] of listAt(config, "options").entries()) {
    yield;
    if (textAt(option, "name") === "") yield requiredCause(`${path}.options[${index}]`, "must not be empty");
  }
}

function* gateCauses(spec: unknown, path: string): Causes {
  for (const [index, gate] of listAt(spec, "readinessGates").entries()) {
    yield;
    const type = textAt(gate, "conditionType");
    const field = `${path}.readinessGates[${index}].conditionType`;
    yield* qualifiedNameFaults(type).map((fault) => invalidCause(field, type, fault));
  }
  const gates = new Set<string>();
  for (const [index, gate] of listAt(spec, "schedulingGates").entries()) {
    yield;
    const field = `${path}.schedulingGates[${index}]`;
    const name = textAt(gate, "name");
    yield* qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault));
    if (gates.has(name)) yield duplicateCause(field, name);
    gates.add(name);
  }
}

/** Of several constraints with the same key and action, kube-apiserver reports all but the last. */
function* spreadConstraintCauses(constraints: readonly unknown[], path: string): Causes {
  const last = new Map(constraints.map((constraint, index) => [spreadIdentity(constraint), index]));
  yield* eachItem(constraints, function* (constraint, index) {
    const isRepeated = last.get(spreadIdentity(constraint)) !== index;
    yield* spreadCauses(constraint, isRepeated, `${path}[${index}]`);
  });
}

function spreadIdentity(constraint: unknown): string {
  return JSON.stringify([textAt(constraint, "topologyKey"), textAt(constraint, "whenUnsatisfiable")]);
}

/** Validates a TopologySpreadConstraint; `isRepeated` if one that follows it has the same identity. */
function* spreadCauses(constraint: unknown, isRepeated: boolean, path: string): Causes {
  const skew = valueAt(constraint, "maxSkew");
  if (typeof skew === "number" && skew <= 0) yield invalidCause(`${path}.maxSkew`, skew, "must be greater than zero");
  const topologyKey = textAt(constraint, "topologyKey");
  if (topologyKey === "") yield requiredCause(`${path}.topologyKey`, "can not be empty");
  const unsatisfiable = textAt(constraint, "whenUnsatisfiable");
  yield* check.oneOf(`${path}.whenUnsatisfiable`, unsatisfiable, ["DoNotSchedule", "ScheduleAnyway"]);
  if (isRepeated) {
    yield duplicateCause(`${path}.{topologyKey, whenUnsatisfiable}`, `{${topologyKey}, ${unsatisfiable}}`);
  }
  const domains = valueAt(constraint, "minDomains");
  if (typeof domains === "number") {
    if (domains <= 0) yield invalidCause(`${path}.minDomains`, domains, "must be greater than zero");
    if (unsatisfiable !== "DoNotSchedule") {
      const detail = `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${unsatisfiable}`;
      yield invalidCause(`${path}.minDomains`, domains, detail);
    }
  }
  for (const field of ["nodeAffinityPolicy", "nodeTaintsPolicy"]) {
    yield* check.oneOf(`${path}.${field}`, valueAt(constraint, field), ["Honor", "Ignore"]);
  }
  yield* matchLabelKeysCauses(constraint, path);
  yield* check.labelSelector(`${path}.labelSelector`, valueAt(constraint, "labelSelector"));
}

/** Validates a Pod's claims of devices (KEP-4381). */
function* resourceClaimCauses(spec: unknown, path: string): Causes {
  const names = new Set<string>();
  yield* eachItem(listAt(spec, "resourceClaims"), (claim, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(claim, "name");
    const causes = names.has(name) ? [duplicateCause(`${at}.name`, name)] : check.dnsLabel(`${at}.name`, name);
    if (name !== "") names.add(name);
    // kube-apiserver prints its internal type.
    const shown = {
      Name: name,
      ResourceClaimName: valueAt(claim, "resourceClaimName") ?? null,
      ResourceClaimTemplateName: valueAt(claim, "resourceClaimTemplateName") ?? null,
    };
    const given = ["resourceClaimName", "resourceClaimTemplateName"].filter((field) => valueAt(claim, field) !== undefined);
    const fields = "`resourceClaimName`";
    if (given.length === 2) {
      const detail = `at most one of ${fields} or \`resourceClaimTemplateName\` may be specified`;
      causes.push(invalidCause(at, shown, detail));
    } else if (given.length === 0) {
      causes.push(invalidCause(at, shown, `must specify one of: ${fields}, \`resourceClaimTemplateName\``));
    }
    for (const field of given) {
      const reference = textAt(claim, field);
      causes.push(...dns1123SubdomainFaults(reference).map((fault) => invalidCause(`${at}.${field}`, reference, fault)));
    }
    return causes;
  });
}

/** Validates a toleration of a Pod or a RuntimeClass. */
export function tolerationCauses(toleration: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const key = textAt(toleration, "key");
  const operator = textAt(toleration, "operator");
  const value = textAt(toleration, "value");
  if (key !== "") causes.push(...labelKeyFaults(key).map((fault) => invalidCause(`${path}.key`, key, fault)));
  else if (operator !== "Exists") {
    const detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"';
    causes.push(invalidCause(`${path}.operator`, operator, detail));
  }
  const seconds = valueAt(toleration, "tolerationSeconds");
  const effect = valueAt(toleration, "effect");
  if (seconds !== undefined && effect !== "NoExecute") {
    const detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
    causes.push(invalidCause(`${path}.effect`, effect ?? "", detail));
  }
  if (operator === "Equal" || operator === "") {
    const faults = labelValueFaults(value);
    if (faults.length > 0) causes.push(invalidCause(`${path}.operator`, value, faults.join(";")));
  } else if (operator === "Exists") {
    if (value !== "") causes.push(invalidCause(`${path}.operator`, value, "value must be empty when `operator` is 'Exists'"));
  } else {
    const isComparison = operator === "Lt" || operator === "Gt";
    causes.push(notSupportedCause(`${path}.operator`, operator, ["Equal", "Exists", ...(isComparison ? ["Lt", "Gt"] : [])]));
  }
  if (effect !== "") causes.push(...check.oneOf(`${path}.effect`, effect, ["NoSchedule", "PreferNoSchedule", "NoExecute"]));
  return causes;
}
