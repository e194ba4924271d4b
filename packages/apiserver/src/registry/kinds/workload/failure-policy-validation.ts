import type { JobObject } from "@keelson/api-machinery/kinds";
import {
  duplicateCause,
  fieldCause,
  invalidCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
  tooManyCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import type { Received } from "../../received.ts";

type JobSpec = Received<JobObject["spec"]> | undefined;
type Policy = NonNullable<NonNullable<JobSpec>["podFailurePolicy"]>;
type Rule = NonNullable<Policy["rules"]>[number];
type ExitCodes = NonNullable<Rule["onExitCodes"]>;
type PodCondition = NonNullable<Rule["onPodConditions"]>[number];

const maxRules = 20;
const maxConditions = 20;
const maxExitCodes = 255;

/** Validates a Job's podFailurePolicy (KEP-3329) at `path`; `spec` is its JobSpec. */
export function failurePolicyCauses(spec: JobSpec, path: string): StatusCause[] {
  const policy = spec?.podFailurePolicy;
  if (policy === undefined) return [];
  const rules = policy.rules ?? [];
  const { initContainers = [], containers: regular = [] } = spec?.template?.spec ?? {};
  const containers = [...initContainers, ...regular].map((container) => container.name ?? "");
  return [
    ...(rules.length > maxRules ? [tooManyCause(`${path}.rules`, rules.length, maxRules)] : []),
    ...rules.flatMap((rule, index) => ruleCauses(rule, `${path}.rules[${index}]`, spec, containers)),
  ];
}

function ruleCauses(rule: Rule, path: string, spec: JobSpec, containers: readonly string[]): StatusCause[] {
  const causes = oneOfRequired(`${path}.action`, rule.action, ["Count", "FailIndex", "FailJob", "Ignore"]);
  if (rule.action === "FailIndex" && spec?.backoffLimitPerIndex === undefined) {
    causes.push(invalidCause(`${path}.action`, "FailIndex", "requires the backoffLimitPerIndex to be set"));
  }
  const codes = rule.onExitCodes;
  const conditions = rule.onPodConditions ?? [];
  if (codes !== undefined) causes.push(...exitCodeCauses(codes, `${path}.onExitCodes`, containers));
  causes.push(...conditions.flatMap((one, index) => conditionCauses(one, `${path}.onPodConditions[${index}]`)));
  if (conditions.length > maxConditions) {
    causes.push(tooManyCause(`${path}.onPodConditions`, conditions.length, maxConditions));
  }
  if (codes !== undefined && conditions.length > 0) {
    causes.push(
      fieldCause("FieldValueInvalid", path, "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"),
    );
  } else if (codes === undefined && conditions.length === 0) {
    causes.push(
      fieldCause("FieldValueInvalid", path, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
    );
  }
  return causes;
}

function exitCodeCauses(codes: ExitCodes, path: string, containers: readonly string[]): StatusCause[] {
  const operator = codes.operator;
  const causes = oneOfRequired(`${path}.operator`, operator, ["In", "NotIn"]);
  const container = codes.containerName;
  if (typeof container === "string" && !containers.includes(container)) {
    const detail = "must be one of the container or initContainer names in the pod template";
    causes.push(invalidCause(`${path}.containerName`, container, detail));
  }
  const values = (codes.values ?? []).filter((value) => typeof value === "number");
  if (values.length === 0) causes.push(invalidCause(`${path}.values`, null, "at least one value is required"));
  if (values.length > maxExitCodes) causes.push(tooManyCause(`${path}.values`, values.length, maxExitCodes));
  for (const [index, value] of values.entries()) {
    const at = `${path}.values[${index}]`;
    if (operator === "In" && value === 0) causes.push(invalidCause(at, value, "must not be 0 for the In operator"));
    if (values.indexOf(value) < index) causes.push(duplicateCause(at, value));
  }
  const isOrdered = values.every((value, index) => index === 0 || (values[index - 1] ?? 0) <= value);
  return isOrdered ? causes : [...causes, invalidCause(`${path}.values`, values, "must be ordered")];
}

function conditionCauses(condition: PodCondition, path: string): StatusCause[] {
  const type = condition.type ?? "";
  return [
    ...qualifiedNameFaults(type).map((fault) => invalidCause(`${path}.type`, type, fault)),
    ...oneOfRequired(`${path}.status`, condition.status, ["False", "True", "Unknown"]),
  ];
}

function oneOfRequired(field: string, value: unknown, supported: readonly string[]): StatusCause[] {
  if (value === undefined || value === "") {
    return [requiredCause(field, `valid values: [${supported.map((one) => JSON.stringify(one)).join(" ")}]`)];
  }
  return check.oneOf(field, value, supported);
}
