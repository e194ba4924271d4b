import type { DeepReadonly } from "@keelson/api-machinery";
import { type CelVariables, evaluateCel } from "../assertions/cel-assertion.ts";
import type { Resource } from "../functions/function.ts";

/** Maximum size of an output as JSON. All outputs of a round are part of the status. */
const maxOutputBytes = 16_384;

/** Evaluates the outputs of a step, or returns why one could not be evaluated. */
export function evaluateOutputs(
  outputs: DeepReadonly<{ name: string; cel: string }[]>,
  objects: readonly NonNullable<Resource>[],
  variables: CelVariables,
): Readonly<Record<string, unknown>> | string {
  const values: Record<string, unknown> = {};
  for (const { name, cel } of outputs) {
    const result = evaluateCel(cel, { ...variables, object: objects[0] ?? null, objects });
    if (result.kind === "error") return `outputs.${name}: ${result.message}`;
    const size = Buffer.byteLength(JSON.stringify(result.value) ?? "");
    if (size > maxOutputBytes) return `outputs.${name}: has ${size} bytes, at most ${maxOutputBytes} are allowed`;
    values[name] = result.value;
  }
  return values;
}
