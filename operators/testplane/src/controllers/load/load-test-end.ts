import { type ConditionInput, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { CriterionResult } from "../../api/load-result.ts";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { verdictOfReason } from "../../verdicts/verdict.ts";
import { describeCriterion, describeLoad, judgeCriteria } from "../../verdicts/load-criteria.ts";
import type { LoadTestDecision } from "./load-test-input.ts";
import { iso } from "../test-status.ts";

type Status = DeepReadonly<LoadTestStatus>;

/** Finishes a LoadTest whose load has ended and whose output has been stored: it succeeds if its success criteria are met. */
export function conclude(spec: DeepReadonly<LoadTestSpec>, status: Status, now: number): LoadTestDecision {
  const criteria = judgeCriteria(spec, status);
  const judged: Status = criteria.length === 0 ? status : { ...status, criteria: [...criteria] };
  const notMet = criteria.filter(({ state }) => state === "NotMet");
  const { checkCount = 0, passCount = 0 } = status.healthCheckStatus ?? {};
  if (notMet.length === 1 && notMet[0]?.name === "minPassPercent") {
    const minPassPercent = spec.successCriteria?.minPassPercent ?? 100;
    const why = `${passCount} of ${checkCount} checks held, but at least ${minPassPercent} % must hold`;
    return failTest(judged, "ChecksFailed", why, now);
  }
  if (notMet.length > 0) return failTest(judged, "CriteriaNotMet", notMet.map(describeCriterion).join("; "), now);
  const missing = missingFigures(spec, status, criteria);
  return missing === undefined ? succeed(judged, now) : failTest(judged, "ResultMissing", missing, now);
}

/** Why the load cannot be judged. */
function missingFigures(
  { workload }: DeepReadonly<LoadTestSpec>,
  { load, workloadOutput = [] }: Status,
  criteria: readonly CriterionResult[],
): string | undefined {
  const open = criteria.filter(({ state }) => state === "Unknown");
  const unknown = open.filter(({ actual }) => actual === undefined).map(({ name }) => name);
  const pause = `a worker of the load generator paused for ${load?.maxPauseMilliseconds ?? 0} ms, which explains it: add workers or CPU`;
  const blurred = open.flatMap((each) => (each.actual === undefined ? [] : [`${describeCriterion(each)}, but ${pause}`]));
  const isPartial = workload.generator !== undefined && load?.state !== "Complete";
  if (open.length === 0 && !isPartial) return undefined;
  const errors = workloadOutput.flatMap(({ pod, error }) => (error === undefined ? [] : [`${pod}: ${error}`]));
  const figures = unknown.length === 0 ? [] : [`the figures of ${unknown.join(", ")} are not known`];
  return [
    ...figures,
    ...blurred,
    ...(isPartial ? ["not all workers of the load generator have reported"] : []),
    ...errors,
  ].join("; ");
}

/** Succeeds a LoadTest. */
function succeed(status: Status, now: number): LoadTestDecision {
  const { healthCheckStatus: health, load } = status;
  const checks = health === undefined ? [] : [`${health.passCount ?? 0} of ${health.checkCount ?? 0} checks held`];
  const parts = [...checks, ...(load === undefined ? [] : [describeLoad(load)])];
  const message = parts.join("; ") || "the load ran for its whole duration";
  const { progress: _, ...rest } = status;
  return {
    status: withConditions(
      { ...rest, phase: "Succeeded", verdict: "Passed", message, completionTime: iso(now) },
      now,
      { type: "Ready", status: false, reason: "Succeeded", message },
      { type: "Complete", status: true, reason: "Succeeded", message },
      { type: "Failed", status: false, reason: "Succeeded", message },
    ),
    webhookCalls: [],
    events: [{ type: "Normal", reason: "LoadTestSucceeded", note: message }],
  };
}

/** Fails a LoadTest. */
export function failTest(
  status: Status,
  reason: string,
  why: string,
  now: number,
  ...conditionInputs: readonly ConditionInput[]
): LoadTestDecision {
  const message = truncate(why, 1024);
  const verdict = verdictOfReason(reason);
  // The frozen spec is still needed to delete the workload.
  const { frozenSpec, progress: _, ...rest } = status;
  const kept = frozenSpec !== undefined && status.workloadApplied === true ? { frozenSpec } : {};
  return {
    status: withConditions(
      { ...rest, ...kept, phase: "Failed", verdict, reason, message, completionTime: iso(now) },
      now,
      { type: "Ready", status: false, reason, message: truncate(why) },
      { type: "Complete", status: false, reason, message: truncate(why) },
      { type: "Failed", status: true, reason, message: truncate(why) },
      ...conditionInputs,
    ),
    webhookCalls: [],
    events: [{ type: "Warning", reason: "LoadTestFailed", note: `${reason}: ${message}` }],
  };
}

/** Sets conditions with the observed generation. */
export function withConditions(status: Status, now: number, ...conditionInputs: readonly ConditionInput[]): Status {
  let conditions = status.conditions;
  for (const input of conditionInputs)
    conditions = setCondition(conditions, { observedGeneration: status.observedGeneration, ...input }, now);
  return conditions === status.conditions || conditions === undefined ? status : { ...status, conditions };
}
