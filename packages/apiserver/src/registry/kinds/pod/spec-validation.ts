import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { affinityCauses } from "./affinity-validation.ts";
import { containerCauses } from "./container-validation.ts";
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
  const causes = [...volumeCauses(spec, path), ...containerCauses(spec, path)];
  const restart = valueAt(spec, "restartPolicy");
  causes.push(...check.oneOf(`${path}.restartPolicy`, restart, ["Always", "OnFailure", "Never"]));
  const dns = valueAt(spec, "dnsPolicy");
  causes.push(...check.oneOf(`${path}.dnsPolicy`, dns, ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]));
  if (dns === "None" && listAt(spec, "dnsConfig", "nameservers").length === 0) {
    const detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
    causes.push(requiredCause(`${path}.dnsConfig.nameservers`, detail));
  }
  causes.push(...check.labels(`${path}.nodeSelector`, valueAt(spec, "nodeSelector")));
  causes.push(...check.atLeast(`${path}.terminationGracePeriodSeconds`, valueAt(spec, "terminationGracePeriodSeconds")));
  const deadline = valueAt(spec, "activeDeadlineSeconds");
  if (typeof deadline === "number" && (deadline < 1 || deadline > 2 ** 31 - 1)) {
    const detail = "must be between 1 and 2147483647, inclusive";
    causes.push(invalidCause(`${path}.activeDeadlineSeconds`, deadline, detail));
  }
  for (const field of ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"]) {
    causes.push(...check.dnsSubdomain(`${path}.${field}`, valueAt(spec, field)));
  }
  for (const field of ["hostname", "subdomain"]) {
    if (textAt(spec, field) !== "") causes.push(...check.dnsLabel(`${path}.${field}`, valueAt(spec, field)));
  }
  causes.push(...securityCauses(valueAt(spec, "securityContext"), `${path}.securityContext`));
  if (valueAt(spec, "shareProcessNamespace") === true && valueAt(spec, "hostPID") === true) {
    const detail = "ShareProcessNamespace and HostPID cannot both be enabled";
    causes.push(invalidCause(`${path}.securityContext.shareProcessNamespace`, true, detail));
  }
  for (const [index, alias] of listAt(spec, "hostAliases").entries()) {
    const ip = textAt(alias, "ip");
    if (!check.isIpAddress(ip)) causes.push(invalidCause(`${path}.hostAliases[${index}].ip`, ip, addressRule));
    for (const name of listAt(alias, "hostnames")) {
      causes.push(...check.dnsSubdomain(`${path}.hostAliases[${index}].hostnames`, name));
    }
  }
  for (const [index, server] of listAt(spec, "dnsConfig", "nameservers").entries()) {
    if (typeof server === "string" && check.isIpAddress(server)) continue;
    causes.push(invalidCause(`${path}.dnsConfig.nameservers[${index}]`, server, addressRule));
  }
  for (const [index, domain] of listAt(spec, "dnsConfig", "searches").entries()) {
    const at = `${path}.dnsConfig.searches[${index}]`;
    causes.push(...check.dnsSubdomain(at, typeof domain === "string" ? domain.replace(/\.$/, "").replaceAll("_", "-") : ""));
  }
  for (const [index, option] of listAt(spec, "dnsConfig", "options").entries()) {
    const at = `${path}.dnsConfig.options[${index}]`;
    if (textAt(option, "name") === "") causes.push(requiredCause(at, "must not be empty"));
  }
  causes.push(...placementCauses(spec, path));
  if (textAt(spec, "schedulerName") === "") causes.push(requiredCause(`${path}.schedulerName`));
  return causes;
}

const addressRule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/** Names of sysctls, separated by dots or slashes. */
const sysctlRule = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
const sysctlName = new RegExp(`^${sysctlRule}$`);
const maxSysctlLength = 253;

function securityCauses(context: unknown, path: string): StatusCause[] {
  const causes = ["runAsUser", "runAsGroup", "fsGroup"].flatMap((field) =>
    check.accountId(`${path}.${field}`, valueAt(context, field)),
  );
  for (const [index, group] of listAt(context, "supplementalGroups").entries()) {
    causes.push(...check.accountId(`${path}.supplementalGroups[${index}]`, group));
  }
  const seen = new Set<string>();
  for (const [index, sysctl] of listAt(context, "sysctls").entries()) {
    const field = `${path}.sysctls[${index}].name`;
    const name = textAt(sysctl, "name");
    if (name === "") causes.push(requiredCause(field));
    else if (name.length > maxSysctlLength || !sysctlName.test(name)) {
      causes.push(invalidCause(field, name, `must have at most ${maxSysctlLength} characters and match regex ${sysctlRule}`));
    } else if (seen.has(name)) causes.push(duplicateCause(field, name));
    seen.add(name);
  }
  return causes;
}

function placementCauses(spec: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [index, toleration] of listAt(spec, "tolerations").entries()) {
    causes.push(...tolerationCauses(toleration, `${path}.tolerations[${index}]`));
  }
  const gates = new Set<string>();
  for (const [index, gate] of listAt(spec, "schedulingGates").entries()) {
    const field = `${path}.schedulingGates[${index}]`;
    const name = textAt(gate, "name");
    causes.push(...qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault)));
    if (gates.has(name)) causes.push(duplicateCause(field, name));
    gates.add(name);
  }
  for (const [index, gate] of listAt(spec, "readinessGates").entries()) {
    const type = textAt(gate, "conditionType");
    const field = `${path}.readinessGates[${index}].conditionType`;
    causes.push(...qualifiedNameFaults(type).map((fault) => invalidCause(field, type, fault)));
  }
  for (const [index, constraint] of listAt(spec, "topologySpreadConstraints").entries()) {
    const at = `${path}.topologySpreadConstraints[${index}]`;
    causes.push(...check.atLeast(`${at}.maxSkew`, valueAt(constraint, "maxSkew"), 1));
    if (textAt(constraint, "topologyKey") === "") causes.push(requiredCause(`${at}.topologyKey`, "can not be empty"));
    const unsatisfiable = valueAt(constraint, "whenUnsatisfiable");
    causes.push(...check.oneOf(`${at}.whenUnsatisfiable`, unsatisfiable, ["DoNotSchedule", "ScheduleAnyway"]));
    causes.push(...check.labelSelector(`${at}.labelSelector`, valueAt(constraint, "labelSelector")));
  }
  causes.push(...affinityCauses(valueAt(spec, "affinity"), `${path}.affinity`));
  return causes;
}

function tolerationCauses(toleration: unknown, path: string): StatusCause[] {
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
  if (operator === "Exists" && value !== "") {
    causes.push(invalidCause(`${path}.operator`, value, "value must be empty when `operator` is 'Exists'"));
  }
  if (operator !== "" && operator !== "Exists" && operator !== "Equal") {
    causes.push(...check.oneOf(`${path}.operator`, operator, ["Equal", "Exists"]));
  }
  if (effect !== "") causes.push(...check.oneOf(`${path}.effect`, effect, ["NoExecute", "NoSchedule", "PreferNoSchedule"]));
  return causes;
}
