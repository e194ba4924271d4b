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
import { type Causes, createRepeatCheck, eachItem } from "../../causes.ts";

type JobSpec = Received<JobObject["spec"]> | undefined;
type Policy = NonNullable<NonNullable<JobSpec>["podFailurePolicy"]>;
type Rule = NonNullable<Policy["rules"]>[number];
type ExitCodes = NonNullable<Rule["onExitCodes"]>;
type PodCondition = NonNullable<Rule["onPodConditions"]>[number];

const maxRules = 20;
const maxConditions = 20;
const maxExitCodes = 255;

/** Validates a Job's podFailurePolicy (KEP-3329) at `path`; `spec` is its JobSpec. */
export function* failurePolicyCauses(spec: JobSpec, path: string): Causes {
  const policy = spec?.podFailurePolicy;
  if (policy === undefined) return;
  const rules = policy.rules ?? [];
  const { initContainers = [], containers: regular = [] } = spec?.template?.spec ?? {};
  const containers = new Set([...initContainers, ...regular].map((container) => container.name ?? ""));
  yield* rules.length > maxRules ? [tooManyCause(`${path}.rules`, rules.length, maxRules)] : [];
  yield* eachItem(rules, (rule, index) => ruleCauses(rule, `${path}.rules[${index}]`, spec, containers));
}

function* ruleCauses(rule: Rule, path: string, spec: JobSpec, containers: ReadonlySet<string>): Causes {
  yield* oneOfRequired(`${path}.action`, rule.action, ["Count", "FailIndex", "FailJob", "Ignore"]);
  if (rule.action === "FailIndex" && spec?.backoffLimitPerIndex === undefined) {
    yield invalidCause(`${path}.action`, "FailIndex", "requires the backoffLimitPerIndex to be set");
  }
  const codes = rule.onExitCodes;
  const conditions = rule.onPodConditions ?? [];
  if (codes !== undefined) yield* exitCodeCauses(codes, `${path}.onExitCodes`, containers);
  yield* eachItem(conditions, (one, index) => conditionCauses(one, `${path}.onPodConditions[${index}]`));
  if (conditions.length > maxConditions) {
    yield tooManyCause(`${path}.onPodConditions`, conditions.length, maxConditions);
  }
  if (codes !== undefined && conditions.length > 0) {
    yield fieldCause(
      "FieldValueInvalid",
      path,
      "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
    );
  } else if (codes === undefined && conditions.length === 0) {
    yield fieldCause("FieldValueInvalid", path, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required");
  }
}

function* exitCodeCauses(codes: ExitCodes, path: string, containers: ReadonlySet<string>): Causes {
  const operator = codes.operator;
  yield* oneOfRequired(`${path}.operator`, operator, ["In", "NotIn"]);
  const container = codes.containerName;
  if (typeof container === "string" && !containers.has(container)) {
    const detail = "must be one of the container or initContainer names in the pod template";
    yield invalidCause(`${path}.containerName`, container, detail);
  }
  const values = (codes.values ?? []).filter((value) => typeof value === "number");
  if (values.length === 0) yield invalidCause(`${path}.values`, null, "at least one value is required");
  if (values.length > maxExitCodes) yield tooManyCause(`${path}.values`, values.length, maxExitCodes);
  const isRepeated = createRepeatCheck();
  for (const [index, value] of values.entries()) {
    yield;
    const at = `${path}.values[${index}]`;
    if (operator === "In" && value === 0) yield invalidCause(at, value, "must not be 0 for the In operator");
    if (isRepeated(value)) yield duplicateCause(at, value);
  }
  const isOrdered = values.every((value, index) => index === 0 || (values[index - 1] ?? 0) <= value);
  if (!isOrdered) yield invalidCause(`${path}.values`, values, "must be ordered");
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
