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
import * as check from "../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../object-fields.ts";
import { affinityCauses, matchLabelKeysCauses } from "./affinity-validation.ts";
import { containerCauses } from "./container-validation.ts";
import { resourceCauses } from "./resource-validation.ts";
import { podSecurityCauses } from "./security-validation.ts";
import { volumeCauses } from "./volume-validation.ts";

/** Validates a PodTemplateSpec at `path`: labels, annotations and spec. */
export function podTemplateCauses(template: unknown, path: string): StatusCause[] {
  const causes = [
    ...check.labels(`${path}.labels`, valueAt(template, "metadata", "labels")),
    ...check.annotations(`${path}.annotations`, valueAt(template, "metadata", "annotations")),
    ...podSpecCauses(valueAt(template, "spec"), `${path}.spec`),
  ];
  if (listAt(template, "spec", "ephemeralContainers").length > 0) {
    causes.push(forbiddenCause(`${path}.spec.ephemeralContainers`, "ephemeral containers not allowed in pod template"));
  }
  return causes;
}

/** Validates a PodSpec at `path`. */
export function podSpecCauses(spec: unknown, path: string): StatusCause[] {
  if (spec === undefined) {
    // Without a spec there are no defaults: report what the client has to write.
    return [requiredCause(`${path}.containers`)];
  }
  const volumes = volumeCauses(spec, path);
  const causes = [...volumes, ...resourceClaimCauses(spec, `${path}.resourceClaims`), ...containerCauses(spec, path, volumes)];
  causes.push(...check.oneOf(`${path}.restartPolicy`, valueAt(spec, "restartPolicy"), ["Always", "OnFailure", "Never"]));
  causes.push(...check.oneOf(`${path}.dnsPolicy`, valueAt(spec, "dnsPolicy"), dnsPolicies));
  causes.push(...check.labels(`${path}.nodeSelector`, valueAt(spec, "nodeSelector")));
  causes.push(...podSecurityCauses(spec, `${path}.securityContext`));
  causes.push(...affinityCauses(valueAt(spec, "affinity"), `${path}.affinity`));
  causes.push(...dnsConfigCauses(spec, `${path}.dnsConfig`));
  causes.push(...gateCauses(spec, path));
  causes.push(...spreadConstraintCauses(listAt(spec, "topologySpreadConstraints"), `${path}.topologySpreadConstraints`));
  causes.push(...hostNameCauses(spec, `${path}.hostnameOverride`));
  causes.push(...check.dnsSubdomain(`${path}.serviceAccountName`, valueAt(spec, "serviceAccountName")));
  causes.push(...check.dnsSubdomain(`${path}.nodeName`, valueAt(spec, "nodeName")));
  const deadline = valueAt(spec, "activeDeadlineSeconds");
  if (typeof deadline === "number" && (deadline < 1 || deadline > 2 ** 31 - 1)) {
    const detail = "must be between 1 and 2147483647, inclusive";
    causes.push(invalidCause(`${path}.activeDeadlineSeconds`, deadline, detail));
  }
  for (const field of ["hostname", "subdomain"]) {
    if (textAt(spec, field) !== "") causes.push(...check.dnsLabel(`${path}.${field}`, valueAt(spec, field)));
  }
  for (const [index, toleration] of listAt(spec, "tolerations").entries()) {
    causes.push(...tolerationCauses(toleration, `${path}.tolerations[${index}]`));
  }
  for (const [index, alias] of listAt(spec, "hostAliases").entries()) {
    const ip = textAt(alias, "ip");
    if (!check.isIpAddress(ip)) causes.push(invalidCause(`${path}.hostAliases[${index}].ip`, ip, addressRule));
    for (const [at, name] of listAt(alias, "hostnames").entries()) {
      if (typeof name !== "string") continue;
      const field = `${path}.hostAliases[${index}].hostnames[${at}]`;
      causes.push(...dns1123SubdomainFaults(name).map((fault) => invalidCause(field, name, fault)));
    }
  }
  causes.push(...check.dnsSubdomain(`${path}.priorityClassName`, valueAt(spec, "priorityClassName")));
  const runtimeClass = valueAt(spec, "runtimeClassName");
  if (typeof runtimeClass === "string") {
    const faults = dns1123SubdomainFaults(runtimeClass);
    causes.push(...faults.map((fault) => invalidCause(`${path}.runtimeClassName`, runtimeClass, fault)));
  }
  const preemption = valueAt(spec, "preemptionPolicy");
  if (preemption === "") causes.push(requiredCause(`${path}.preemptionPolicy`));
  else causes.push(...check.oneOf(`${path}.preemptionPolicy`, preemption, ["PreemptLowerPriority", "Never"]));
  causes.push(...resourceCauses({ limits: mapAt(spec, "overhead") }, `${path}.overhead`));
  causes.push(...systemCauses(spec, `${path}.os`));
  return causes;
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

function dnsConfigCauses(spec: unknown, path: string): StatusCause[] {
  const config = valueAt(spec, "dnsConfig");
  const servers = listAt(config, "nameservers");
  if (valueAt(spec, "dnsPolicy") === "None") {
    if (config === undefined) return [requiredCause(path, "must provide `dnsConfig` when `dnsPolicy` is None")];
    const detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
    if (servers.length === 0) return [requiredCause(`${path}.nameservers`, detail)];
  }
  const causes: StatusCause[] = [];
  if (servers.length > maxNameservers) {
    causes.push(invalidCause(`${path}.nameservers`, servers, `must not have more than ${maxNameservers} nameservers`));
  }
  for (const [index, server] of servers.entries()) {
    if (typeof server === "string" && check.isIpAddress(server)) continue;
    causes.push(invalidCause(`${path}.nameservers[${index}]`, server, addressRule));
  }
  const searches = listAt(config, "searches");
  if (searches.length > maxSearches) {
    causes.push(invalidCause(`${path}.searches`, searches, `must not have more than ${maxSearches} search paths`));
  }
  if (searches.join(" ").length > maxSearchesLength) {
    const detail = `must not have more than ${maxSearchesLength} characters (including spaces) in the search list`;
    causes.push(invalidCause(`${path}.searches`, searches, detail));
  }
  for (const [index, search] of searches.entries()) {
    if (typeof search !== "string" || search === ".") continue;
    const domain = search.replace(/\.$/, "");
    const faults = dns1123SubdomainWithUnderscoreFaults(domain);
    causes.push(...faults.map((fault) => invalidCause(`${path}.searches[${index}]`, domain, fault)));
  }
  for (const [index, option] of listAt(config, "options").entries()) {
    if (textAt(option, "name") === "") causes.push(requiredCause(`${path}.options[${index}]`, "must not be empty"));
  }
  return causes;
}

function gateCauses(spec: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [index, gate] of listAt(spec, "readinessGates").entries()) {
    const type = textAt(gate, "conditionType");
    const field = `${path}.readinessGates[${index}].conditionType`;
    causes.push(...qualifiedNameFaults(type).map((fault) => invalidCause(field, type, fault)));
  }
  const gates = new Set<string>();
  for (const [index, gate] of listAt(spec, "schedulingGates").entries()) {
    const field = `${path}.schedulingGates[${index}]`;
    const name = textAt(gate, "name");
    causes.push(...qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault)));
    if (gates.has(name)) causes.push(duplicateCause(field, name));
    gates.add(name);
  }
  return causes;
}

/** Of several constraints with the same key and action, kube-apiserver reports all but the last. */
function spreadConstraintCauses(constraints: readonly unknown[], path: string): StatusCause[] {
  const last = new Map(constraints.map((constraint, index) => [spreadIdentity(constraint), index]));
  return constraints.flatMap((constraint, index) => {
    const isRepeated = last.get(spreadIdentity(constraint)) !== index;
    return spreadCauses(constraint, isRepeated, `${path}[${index}]`);
  });
}

function spreadIdentity(constraint: unknown): string {
  return JSON.stringify([textAt(constraint, "topologyKey"), textAt(constraint, "whenUnsatisfiable")]);
}

/** Validates a TopologySpreadConstraint; `isRepeated` if one that follows it has the same identity. */
function spreadCauses(constraint: unknown, isRepeated: boolean, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const skew = valueAt(constraint, "maxSkew");
  if (typeof skew === "number" && skew <= 0) causes.push(invalidCause(`${path}.maxSkew`, skew, "must be greater than zero"));
  const topologyKey = textAt(constraint, "topologyKey");
  if (topologyKey === "") causes.push(requiredCause(`${path}.topologyKey`, "can not be empty"));
  const unsatisfiable = textAt(constraint, "whenUnsatisfiable");
  causes.push(...check.oneOf(`${path}.whenUnsatisfiable`, unsatisfiable, ["DoNotSchedule", "ScheduleAnyway"]));
  if (isRepeated) {
    causes.push(duplicateCause(`${path}.{topologyKey, whenUnsatisfiable}`, `{${topologyKey}, ${unsatisfiable}}`));
  }
  const domains = valueAt(constraint, "minDomains");
  if (typeof domains === "number") {
    if (domains <= 0) causes.push(invalidCause(`${path}.minDomains`, domains, "must be greater than zero"));
    if (unsatisfiable !== "DoNotSchedule") {
      const detail = `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${unsatisfiable}`;
      causes.push(invalidCause(`${path}.minDomains`, domains, detail));
    }
  }
  for (const field of ["nodeAffinityPolicy", "nodeTaintsPolicy"]) {
    causes.push(...check.oneOf(`${path}.${field}`, valueAt(constraint, field), ["Honor", "Ignore"]));
  }
  causes.push(...matchLabelKeysCauses(constraint, path));
  return [...causes, ...check.labelSelector(`${path}.labelSelector`, valueAt(constraint, "labelSelector"))];
}

/** Validates a Pod's claims of devices (KEP-4381). */
function resourceClaimCauses(spec: unknown, path: string): StatusCause[] {
  const names = new Set<string>();
  return listAt(spec, "resourceClaims").flatMap((claim, index) => {
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
