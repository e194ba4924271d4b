import type { DeepReadonly } from "@keelson/api-machinery";
import type { StepStatus } from "../api/step-status.ts";

type Result = DeepReadonly<NonNullable<StepStatus["result"]>>;

/** The result of a program as the variable `result` of expressions. `json`: its output as JSON; null if it is none. */
export const readableResult = (result: Result): Result & { readonly json: unknown } => ({
  ...result,
  json: jsonOf(result.stdout),
});

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
