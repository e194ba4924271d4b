import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import {
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  pathSegmentFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { containerResourceNameCauses } from "../pod/validation/resource-validation.ts";
import { type Causes, eachItem } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Validates an autoscaling/v2 HorizontalPodAutoscaler. */
export function* autoscalerCauses(object: Read): Causes {
  const spec = valueAt(object, "spec");
  const maxReplicas = valueAt(spec, "maxReplicas");
  const minReplicas = valueAt(spec, "minReplicas");

  if (typeof minReplicas === "number" && minReplicas < 1) {
    yield invalidCause("spec.minReplicas", minReplicas, "must be greater than or equal to 1");
  }
  yield* check.atLeast("spec.maxReplicas", maxReplicas, 1);
  if (typeof maxReplicas === "number" && typeof minReplicas === "number" && maxReplicas < minReplicas) {
    yield invalidCause("spec.maxReplicas", maxReplicas, "must be greater than or equal to `minReplicas`");
  }
  yield* referenceCauses("spec.scaleTargetRef", valueAt(spec, "scaleTargetRef"));
  yield* versionCauses("spec.scaleTargetRef.apiVersion", textAt(spec, "scaleTargetRef", "apiVersion"), { needsGroup: true });
  yield* metricsCauses(listAt(spec, "metrics"), minReplicas);
  yield* rulesCauses("spec.behavior.scaleUp", valueAt(spec, "behavior", "scaleUp"));
  yield* rulesCauses("spec.behavior.scaleDown", valueAt(spec, "behavior", "scaleDown"));
}

/** Validates the status of a HorizontalPodAutoscaler. */
export function autoscalerStatusCauses(object: Read): StatusCause[] {
  return ["currentReplicas", "desiredReplicas"].flatMap((name) =>
    check.atLeast(`status.${name}`, valueAt(object, "status", name)),
  );
}

function referenceCauses(field: string, reference: unknown): StatusCause[] {
  return ["kind", "name"].flatMap((part) => {
    const value = textAt(reference, part);
    if (value === "") return [requiredCause(`${field}.${part}`)];
    return pathSegmentFaults(value).map((fault) => invalidCause(`${field}.${part}`, value, fault));
  });
}

/** A group and version; the target of an autoscaler must have a group. */
function versionCauses(field: string, version: string, { needsGroup }: { readonly needsGroup: boolean }): StatusCause[] {
  const parts = version.split("/");
  if (parts.length > 2) return [invalidCause(field, version, `unexpected GroupVersion string: ${version}`)];
  if (!needsGroup || (parts.length === 2 && parts[0] !== "")) return [];
  return [invalidCause(field, version, "apiVersion must specify API group")];
}

/** The metric sources, in the order in which kube-apiserver checks them: the type and its field. */
const sources: readonly (readonly [type: string, field: string, causes: (field: string, source: unknown) => Causes])[] = [
  ["Object", "object", objectCauses],
  ["External", "external", externalCauses],
  ["Pods", "pods", podsCauses],
  ["Resource", "resource", resourceCauses],
  ["ContainerResource", "containerResource", containerResourceCauses],
];

function* metricsCauses(metrics: readonly unknown[], minReplicas: unknown): Causes {
  yield* eachItem(metrics, (metric, index) => metricCauses(`spec.metrics[${index}]`, metric));
  const scalesToZero = metrics.some((metric) => ["Object", "External"].includes(textAt(metric, "type")));
  if (minReplicas === 0 && !scalesToZero) {
    const detail = "must specify at least one Object or External metric to support scaling to zero replicas";
    yield forbiddenCause("spec.metrics", detail);
  }
}

function* metricCauses(field: string, metric: unknown): Causes {
  const type = textAt(metric, "type");

  if (type === "") yield requiredCause(`${field}.type`, "must specify a metric source type");
  const expected = sources.find(([name]) => name === type);
  const unsupported = notSupportedCause(`${field}.type`, type, sources.map(([name]) => name).sort());
  if (expected === undefined) yield unsupported;
  const present = sources.filter(([, name]) => valueAt(metric, name) !== undefined);
  const [first] = expected !== undefined && present.includes(expected) ? [expected] : present;
  if (first !== undefined) yield* first[2](`${field}.${first[1]}`, valueAt(metric, first[1]));
  if (expected !== undefined && !present.includes(expected)) {
    yield requiredCause(`${field}.${expected[1]}`, "must populate information for the given metric source");
  }
  // kube-apiserver reports it twice.
  if (expected === undefined) yield unsupported;
  for (const source of present) {
    yield;
    if (source !== expected && (expected !== undefined || present.length > 1)) {
      yield forbiddenCause(`${field}.${source[1]}`, "must populate the given metric source only");
    }
  }
}

const eitherValue = "must set either a target value for metric or a per-pod target";

function* objectCauses(field: string, source: unknown): Causes {
  const target = valueAt(source, "target");
  yield* referenceCauses(`${field}.describedObject`, valueAt(source, "describedObject"));
  yield* versionCauses(`${field}.describedObject.apiVersion`, textAt(source, "describedObject", "apiVersion"), {
    needsGroup: false,
  });
  yield* identifierCauses(`${field}.metric`, valueAt(source, "metric"));
  yield* targetCauses(`${field}.target`, target);
  if (!has(target, "value") && !has(target, "averageValue")) {
    yield requiredCause(`${field}.target.averageValue`, "must set either a target value or averageValue");
  }
}

function externalCauses(field: string, source: unknown): StatusCause[] {
  const target = valueAt(source, "target");
  const causes = [
    ...identifierCauses(`${field}.metric`, valueAt(source, "metric")),
    ...targetCauses(`${field}.target`, target),
  ];
  const [hasValue, hasAverage] = [has(target, "value"), has(target, "averageValue")];
  if (!hasValue && !hasAverage) causes.push(requiredCause(`${field}.target.averageValue`, eitherValue));
  if (hasValue && hasAverage) {
    const detail = "may not set both a target value for metric and a per-pod target";
    causes.push(forbiddenCause(`${field}.target.value`, detail));
  }
  return causes;
}

function podsCauses(field: string, source: unknown): StatusCause[] {
  const target = valueAt(source, "target");
  const causes = [
    ...identifierCauses(`${field}.metric`, valueAt(source, "metric")),
    ...targetCauses(`${field}.target`, target),
  ];
  const average = valueAt(target, "averageValue");
  if (average === undefined || !isPositive(average)) {
    causes.push(requiredCause(`${field}.target.averageValue`, "must specify a positive target averageValue"));
  }
  return causes;
}

function containerResourceCauses(field: string, source: unknown): StatusCause[] {
  const container = textAt(source, "container");
  return [
    ...nameCauses(field, source),
    ...containerResourceNameCauses(`${field}.name`, textAt(source, "name")),
    ...(container === ""
      ? [requiredCause(`${field}.container`, "must specify a container")]
      : check.dnsLabel(`${field}.container`, container)),
    ...resourceTargetCauses(field, valueAt(source, "target")),
  ];
}

function nameCauses(field: string, source: unknown): StatusCause[] {
  return textAt(source, "name") === "" ? [requiredCause(`${field}.name`, "must specify a resource name")] : [];
}

function resourceCauses(field: string, source: unknown): StatusCause[] {
  return [...nameCauses(field, source), ...resourceTargetCauses(field, valueAt(source, "target"))];
}

function resourceTargetCauses(field: string, target: unknown): StatusCause[] {
  const causes = targetCauses(`${field}.target`, target);
  const [hasUtilization, hasAverage] = [has(target, "averageUtilization"), has(target, "averageValue")];
  if (!hasUtilization && !hasAverage) {
    const detail = "must set either a target raw value or a target utilization";
    causes.push(requiredCause(`${field}.target.averageUtilization`, detail));
  }
  if (hasUtilization && hasAverage) {
    const detail = "may not set both a target raw value and a target utilization";
    causes.push(forbiddenCause(`${field}.target.averageValue`, detail));
  }
  return causes;
}

function identifierCauses(field: string, identifier: unknown): StatusCause[] {
  const name = textAt(identifier, "name");
  if (name === "") return [requiredCause(`${field}.name`, "must specify a metric name")];
  return pathSegmentFaults(name).map((fault) => invalidCause(`${field}.name`, name, fault));
}

function targetCauses(field: string, target: unknown): StatusCause[] {
  const type = textAt(target, "type");
  const causes: StatusCause[] = [];
  if (type === "") causes.push(requiredCause(`${field}.type`, "must specify a metric target type"));
  if (!["Utilization", "Value", "AverageValue"].includes(type)) {
    causes.push(invalidCause(`${field}.type`, type, "must be either Utilization, Value, or AverageValue"));
  }
  for (const name of ["value", "averageValue"]) {
    const value = valueAt(target, name);
    if (value !== undefined && !isPositive(value)) causes.push(invalidCause(`${field}.${name}`, value, "must be positive"));
  }
  return [...causes, ...check.atLeast(`${field}.averageUtilization`, valueAt(target, "averageUtilization"), 1)];
}

function has(target: unknown, name: string): boolean {
  return valueAt(target, name) !== undefined;
}

function isPositive(value: unknown): boolean {
  return (typeof value === "string" || typeof value === "number") && isQuantity(value) && compareQuantities(value, "0") > 0;
}

const maxWindowSeconds = 3600;
const maxPeriodSeconds = 1800;

function* rulesCauses(field: string, rules: unknown): Causes {
  if (rules === undefined) return;
  const window = valueAt(rules, "stabilizationWindowSeconds");
  if (typeof window === "number" && window < 0) {
    yield invalidCause(`${field}.stabilizationWindowSeconds`, window, "must be greater than or equal to zero");
  }
  if (typeof window === "number" && window > maxWindowSeconds) {
    const detail = `must be less than or equal to ${maxWindowSeconds}`;
    yield invalidCause(`${field}.stabilizationWindowSeconds`, window, detail);
  }
  yield* check.oneOf(`${field}.selectPolicy`, valueAt(rules, "selectPolicy"), ["Disabled", "Max", "Min"]);
  const policies = listAt(rules, "policies");
  if (policies.length === 0) yield requiredCause(`${field}.policies`, "must specify at least one Policy");
  yield* eachItem(policies, (policy, index) => policyCauses(`${field}.policies[${index}]`, policy));
  const tolerance = valueAt(rules, "tolerance");
  if (typeof tolerance === "string" && isQuantity(tolerance) && compareQuantities(tolerance, "0") < 0) {
    yield invalidCause(`${field}.tolerance`, tolerance, "must be greater than or equal to 0");
  }
}

function policyCauses(field: string, policy: unknown): StatusCause[] {
  const causes = check.oneOf(`${field}.type`, textAt(policy, "type"), ["Percent", "Pods"]);
  for (const name of ["value", "periodSeconds"]) {
    const value = valueAt(policy, name) ?? 0;
    if (typeof value === "number" && value <= 0) {
      causes.push(invalidCause(`${field}.${name}`, value, "must be greater than zero"));
    }
  }
  const period = valueAt(policy, "periodSeconds");
  if (typeof period === "number" && period > maxPeriodSeconds) {
    causes.push(invalidCause(`${field}.periodSeconds`, period, `must be less than or equal to ${maxPeriodSeconds}`));
  }
  return causes;
}
