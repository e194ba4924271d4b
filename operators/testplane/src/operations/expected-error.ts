import type { DeepReadonly } from "@keelson/api-machinery";
import { compilePattern } from "@keelson/api-machinery/pattern";
import type { ExpectError } from "../api/step-actions.ts";
import type { ActionOutcome, Rejection } from "./action-outcome.ts";

/** The outcome of an action that the API server must reject. */
export function judgeRejection(outcome: ActionOutcome, expected: DeepReadonly<ExpectError>): ActionOutcome {
  if (outcome.kind === "unavailable") return outcome;
  if (outcome.kind === "done") {
    return {
      kind: "failed",
      reason: "ErrorExpected",
      message: "the API server accepted the action, but the test expects an error",
    };
  }
  const { rejection } = outcome;
  // The test itself refused the action: nothing is known about the API server.
  if (rejection === undefined) return outcome;
  const mismatch = mismatchOf(rejection, expected);
  if (mismatch === undefined) return { kind: "done", isRejected: true };
  return { kind: "failed", reason: "UnexpectedError", message: `${mismatch}; the API server responded: ${outcome.message}` };
}

function mismatchOf(actual: Rejection, { code, reason, message }: DeepReadonly<ExpectError>): string | undefined {
  if (code !== undefined && actual.code !== code) return `the code is ${actual.code}, expected ${code}`;
  if (reason !== undefined && actual.reason !== reason) return `the reason is ${actual.reason || "empty"}, expected ${reason}`;
  if (message !== undefined && !compilePattern(message).test(actual.message)) return `the message does not match ${message}`;
  return undefined;
}
