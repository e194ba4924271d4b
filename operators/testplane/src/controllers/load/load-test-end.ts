import { type ConditionInput, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { verdictOfReason } from "../../verdicts/verdict.ts";
import type { LoadTestDecision } from "./load-test-input.ts";
import { iso } from "../test-status.ts";

type Status = DeepReadonly<LoadTestStatus>;

/** Finishes a LoadTest whose load has ended: it succeeds if enough checks held. */
export function conclude(spec: DeepReadonly<LoadTestSpec>, status: Status, now: number): LoadTestDecision {
  const { checkCount = 0, passCount = 0 } = status.healthCheckStatus ?? {};
  const minPassPercent = spec.successCriteria?.minPassPercent ?? 100;
  if (checkCount === 0 || passCount * 100 >= minPassPercent * checkCount) return succeed(status, now);
  const why = `${passCount} of ${checkCount} checks held, but at least ${minPassPercent} % must hold`;
  return failTest(status, "ChecksFailed", why, now);
}

/** Succeeds a LoadTest. */
function succeed(status: Status, now: number): LoadTestDecision {
  const health = status.healthCheckStatus;
  const message =
    health === undefined
      ? "the load ran for its whole duration"
      : `${health.passCount ?? 0} of ${health.checkCount ?? 0} checks held`;
  return {
    status: withConditions(
      { ...status, phase: "Succeeded", verdict: "Passed", message, completionTime: iso(now) },
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
  const { frozenSpec, ...rest } = status;
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
