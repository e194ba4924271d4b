import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { type RoundVerdict, verdictOfReason } from "../../verdicts/verdict.ts";
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
    stage: step.resource?.manifest === undefined ? (step.resource === undefined ? "Ready" : "Converge") : "Apply",
    startedAt: iso(now),
    stageStartedAt: iso(now),
    deadline: iso(now + (step.timeoutSeconds || defaultStepSeconds) * 1_000),
  };
}

/** Outcome of an action on a step's object. */
export type ActionOutcome =
  | { readonly kind: "done"; readonly object: NonNullable<StepStatus["object"]> }
  | { readonly kind: "failed"; readonly reason: string; readonly message: string }
  /** The action cannot succeed yet and is retried until the deadline of the step. `isOutage`: the API could not be reached. */
  | { readonly kind: "unavailable"; readonly message: string; readonly isOutage?: boolean };

/** The status of a step after an action on its object. */
export function afterAction(status: DeepReadonly<StepStatus>, outcome: ActionOutcome, now: number): DeepReadonly<StepStatus> {
  switch (outcome.kind) {
    case "done": {
      const { message: _, unavailableSince: __, ...rest } = status;
      return {
        ...rest,
        applied: true,
        appliedAt: iso(now),
        stage: "Converge",
        stageStartedAt: iso(now),
        object: outcome.object,
      };
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

/** The status of a step that waits, with what it waits for. */
export function waiting(status: DeepReadonly<StepStatus>, message: string): DeepReadonly<StepStatus> {
  const next = { ...status, message: truncate(message, 1024) };
  return jsonEquals(next, status) ? status : next;
}
