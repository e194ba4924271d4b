import { type ConditionInput, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { LoadTestStatus } from "../../api/load-test.ts";
import { cut } from "../../evaluation/evaluate.ts";
import type { LoadTestDecision } from "./load-test-input.ts";
import { iso } from "../test-status.ts";

type Status = DeepReadonly<LoadTestStatus>;

/** A LoadTest whose load ran to its end. */
export function succeed(status: Status, now: number): LoadTestDecision {
  const health = status.healthCheckStatus;
  const message =
    health === undefined ? "the load ran to its end" : `${health.passCount ?? 0} of ${health.checkCount ?? 0} checks held`;
  return {
    status: withConditions({ ...status, phase: "Succeeded", message, completionTime: iso(now) }, now, {
      type: "Ready",
      status: false,
      reason: "Succeeded",
      message,
    }),
    asks: [],
    events: [{ type: "Normal", reason: "LoadTestSucceeded", note: message }],
  };
}

/** A LoadTest that has failed. */
export function failTest(
  status: Status,
  reason: string,
  why: string,
  now: number,
  ...claims: readonly ConditionInput[]
): LoadTestDecision {
  const message = cut(why, 1024);
  // The spec is needed to stop the load, and for nothing else.
  const { frozenSpec, ...rest } = status;
  const left = frozenSpec !== undefined && status.workloadApplied === true ? { frozenSpec } : {};
  return {
    status: withConditions(
      { ...rest, ...left, phase: "Failed", reason, message, completionTime: iso(now) },
      now,
      { type: "Ready", status: false, reason, message: cut(why) },
      ...claims,
    ),
    asks: [],
    events: [{ type: "Warning", reason: "LoadTestFailed", note: `${reason}: ${message}` }],
  };
}

/** The status with these conditions, of the generation that runs. */
export function withConditions(status: Status, now: number, ...claims: readonly ConditionInput[]): Status {
  let conditions = status.conditions;
  for (const claim of claims)
    conditions = setCondition(conditions, { observedGeneration: status.observedGeneration, ...claim }, now);
  return conditions === status.conditions || conditions === undefined ? status : { ...status, conditions };
}
