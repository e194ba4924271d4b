import type { DeepReadonly } from "@keelson/api-machinery";
import type { StepStatus } from "../api/step-status.ts";

type Result = DeepReadonly<NonNullable<StepStatus["result"]>>;

/** The result of a program as the `result` variable of expressions. `json`: its output as JSON; null if it was truncated or is not JSON. */
export const readableResult = (result: Result): Result & { readonly json: unknown; readonly truncated: boolean } => {
  const { truncated = false } = result;
  // The end of a JSON document may be another one.
  return { ...result, truncated, json: truncated ? null : jsonOf(result.stdout) };
};

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
