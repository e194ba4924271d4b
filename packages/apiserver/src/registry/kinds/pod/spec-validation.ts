import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { containerCauses } from "./container-validation.ts";
import { volumeCauses } from "./volume-validation.ts";

/** What is wrong with a PodTemplateSpec at `path`: labels, annotations and spec. */
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

/** What is wrong with a PodSpec at `path`. */
export function podSpecCauses(spec: unknown, path: string): StatusCause[] {
  if (spec === undefined) {
    // Defaults of a spec that is not there are not there either: what is told is what a client has to write.
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
  for (const field of ["runAsUser", "runAsGroup", "fsGroup"]) {
    causes.push(...check.atLeast(`${path}.securityContext.${field}`, valueAt(spec, "securityContext", field)));
  }
  for (const [index, alias] of listAt(spec, "hostAliases").entries()) {
    const ip = textAt(alias, "ip");
    if (!check.isIpAddress(ip)) causes.push(invalidCause(`${path}.hostAliases[${index}].ip`, ip, addressRule));
  }
  causes.push(...placementCauses(spec, path));
  if (textAt(spec, "schedulerName") === "") causes.push(requiredCause(`${path}.schedulerName`));
  return causes;
}

const addressRule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

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
  const wanted = listAt(
    spec,
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
  );
  const affinity = `${path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`;
  for (const [index, term] of wanted.entries()) causes.push(...nodeTermCauses(term, `${affinity}[${index}]`));
  return causes;
}

const nodeOperators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/** What is wrong with a NodeSelectorTerm (core/v1). */
export function nodeTermCauses(term: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [index, expression] of listAt(term, "matchExpressions").entries()) {
    const at = `${path}.matchExpressions[${index}]`;
    const key = textAt(expression, "key");
    const operator = textAt(expression, "operator");
    const values = listAt(expression, "values");
    causes.push(...labelKeyFaults(key).map((fault) => invalidCause(`${at}.key`, key, fault)));
    if (!nodeOperators.includes(operator))
      causes.push(invalidCause(`${at}.operator`, operator, "not a valid selector operator"));
    else if ((operator === "In" || operator === "NotIn") && values.length === 0) {
      causes.push(requiredCause(`${at}.values`, "must be specified when `operator` is 'In' or 'NotIn'"));
    } else if ((operator === "Exists" || operator === "DoesNotExist") && values.length > 0) {
      causes.push(forbiddenCause(`${at}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    } else if ((operator === "Gt" || operator === "Lt") && values.length !== 1) {
      causes.push(requiredCause(`${at}.values`, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
    }
  }
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
