import type { JobObject } from "@keelson/api-machinery/kinds";
import { invalidCause, requiredCause, type StatusCause, tooLongCause, tooManyCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import type { Received } from "../../received.ts";
import { type Causes, eachItem } from "../../causes.ts";

type JobSpec = Received<JobObject["spec"]> | undefined;
type Rule = NonNullable<NonNullable<NonNullable<JobSpec>["successPolicy"]>["rules"]>[number];

const maxRules = 20;
const maxIndexesLength = 64 * 1024;

/** Validates a Job's successPolicy (KEP-3998) at `path`; `spec` is its JobSpec. */
export function* successPolicyCauses(spec: JobSpec, path: string): Causes {
  const policy = spec?.successPolicy;
  if (policy === undefined) return;
  const rules = policy.rules ?? [];
  if (spec?.completionMode !== "Indexed") {
    // kube-apiserver prints its internal type.
    const shown = rules.map((rule) => ({
      SucceededIndexes: rule.succeededIndexes ?? null,
      SucceededCount: rule.succeededCount ?? null,
    }));
    yield invalidCause(path, { Rules: shown.length === 0 ? null : shown }, "requires indexed completion mode");
    return;
  }

  if (rules.length === 0) {
    yield requiredCause(`${path}.rules`, "at least one rules must be specified when the successPolicy is specified");
  }
  if (rules.length > maxRules) yield tooManyCause(`${path}.rules`, rules.length, maxRules);
  const completions = spec.completions ?? 0;
  yield* eachItem(rules, (rule, index) => ruleCauses(rule, `${path}.rules[${index}]`, completions));
}

function ruleCauses(rule: Rule, path: string, completions: number): StatusCause[] {
  const { succeededIndexes: indexes, succeededCount: count } = rule;
  const causes: StatusCause[] = [];
  if (indexes === undefined && count === undefined) {
    causes.push(requiredCause(path, "at least one of succeededCount or succeededIndexes must be specified"));
  }
  let total = 0;
  if (indexes !== undefined) {
    const field = `${path}.succeededIndexes`;
    if (indexes.length > maxIndexesLength) causes.push(tooLongCause(field, maxIndexesLength));
    const counted = countIndexes(indexes, completions);
    if (typeof counted === "number") total = counted;
    else causes.push(invalidCause(field, indexes, `error parsing succeededIndexes: ${counted}`));
  }
  if (count === undefined) return causes;
  const field = `${path}.succeededCount`;
  causes.push(...check.atLeast(field, count));
  if (count > completions) {
    const detail = `must be less than or equal to ${completions} (the number of specified completions)`;
    causes.push(invalidCause(field, count, detail));
  }
  if (indexes !== undefined && count > total) {
    const detail = `must be less than or equal to ${total} (the number of indexes in the specified succeededIndexes field)`;
    causes.push(invalidCause(field, count, detail));
  }
  return causes;
}

/** The number of indexes in ascending intervals such as `1,3-5`; a string with the reason if they cannot be parsed. */
function countIndexes(text: string, completions: number): number | string {
  if (text === "") return 0;
  let total = 0;
  let last: number | undefined;
  for (const interval of text.split(",")) {
    const limits = interval.split("-");
    if (limits.length > 2) {
      const rule = "violates the requirement that an index interval can have at most two parts separated by '-'";
      return `the fragment ${JSON.stringify(interval)} ${rule}`;
    }
    for (const limit of limits) {
      if (!/^[+-]?\d+$/.test(limit)) return `cannot convert string to integer for index: ${JSON.stringify(limit)}`;
      if (Number(limit) >= completions) return `too large index: ${JSON.stringify(limit)}`;
    }
    const first = Number(limits[0]);
    const end = Number(limits[1] ?? limits[0]);
    if (limits.length === 2 && first >= end) return `non-increasing order, previous: ${first}, current: ${end}`;
    if (last !== undefined && last >= first) return `non-increasing order, previous: ${last}, current: ${first}`;
    total += end - first + 1;
    last = end;
  }
  return total;
}
