import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { type RoundVerdict, verdictOfReason } from "../../verdicts/verdict.ts";
import type { ActionOutcome } from "../../operations/action-outcome.ts";
import { hasAction } from "../../operations/step-objects.ts";
import { iso } from "../test-status.ts";

/** Default `timeoutSeconds` of a step. */
export const defaultStepSeconds = 600;

/** The status of a step that starts now. */
export function beginStep(
  status: DeepReadonly<StepStatus>,
  step: DeepReadonly<TestStep>,
  now: number,
): DeepReadonly<StepStatus> {
  return {
    name: status.name,
    index: status.index,
    state: "Running",
    ...(status.phase === undefined ? {} : { phase: status.phase }),
    ...(status.attempt === undefined ? {} : { attempt: status.attempt }),
    stage: hasAction(step) ? "Apply" : step.resource === undefined ? "Ready" : "Converge",
    startedAt: iso(now),
    stageStartedAt: iso(now),
    deadline: iso(now + (step.timeoutSeconds || defaultStepSeconds) * 1_000),
  };
}

/** The status of a step after an action on its object. */
export function afterAction(status: DeepReadonly<StepStatus>, outcome: ActionOutcome, now: number): DeepReadonly<StepStatus> {
  switch (outcome.kind) {
    case "done": {
      const { message: _, unavailableSince: __, ...rest } = status;
      const { object, isRejected, result } = outcome;
      if (result !== undefined) return { ...rest, result, stage: "Ready", stageStartedAt: iso(now) };
      const acted = { ...rest, applied: true, appliedAt: iso(now), stageStartedAt: iso(now) };
      if (isRejected) return { ...acted, stage: "Ready" };
      return { ...acted, stage: "Converge", ...(object === undefined ? {} : { object }) };
    }
    case "failed":
      return failed(status, outcome.reason, outcome.message, now);
    case "unavailable": {
      const { unavailableSince = iso(now), ...rest } = status;
      if (!outcome.isOutage) return { ...rest, message: truncate(outcome.message, 1024) };
      return {
        ...rest,
        unavailableSince,
        message: truncate(`API unavailable since ${unavailableSince}: ${outcome.message}`, 1024),
      };
    }
  }
}

/** The status of a failed step. */
export function failed(
  status: DeepReadonly<StepStatus>,
  reason: string,
  message: string,
  now: number,
  verdict: RoundVerdict = verdictOfReason(reason),
): DeepReadonly<StepStatus> {
  return { ...status, state: "Failed", verdict, reason, message: truncate(message, 1024), finishedAt: iso(now) };
}

/** Seconds before a failed step is repeated. */
const retryDelaySeconds = 1;

/** The status of a failed step that is repeated. */
export function nextAttempt(
  { name, index, phase, attempt = 1, reason = "", message = "" }: DeepReadonly<StepStatus>,
  now: number,
): DeepReadonly<StepStatus> {
  return {
    ...{ name, index, state: "" },
    ...(phase === undefined ? {} : { phase }),
    attempt: attempt + 1,
    nextAttemptAt: iso(now + retryDelaySeconds * 1_000),
    message: truncate(`attempt ${attempt} failed: ${reason}: ${message}`, 1024),
  };
}

/** The status of a step that waits, with what it waits for. */
export function waiting(status: DeepReadonly<StepStatus>, message: string): DeepReadonly<StepStatus> {
  const next = { ...status, message: truncate(message, 1024) };
  return jsonEquals(next, status) ? status : next;
}
