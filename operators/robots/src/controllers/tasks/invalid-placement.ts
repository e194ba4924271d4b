import type { DeepReadonly } from "@keelson/api-machinery";
import type { Task } from "../../api/task.ts";
import { constraintProblem } from "../../placement/constraint.ts";
import { spreadProblem } from "../../placement/spread.ts";

/** Why the first constraint or spread of a Task that no robot can meet is invalid; undefined if all are valid. */
export function invalidPlacement({
  spec,
}: DeepReadonly<Task>): { readonly reason: string; readonly message: string } | undefined {
  const constraints = [
    ...(["constraints", "affinities"] as const).map((field) => ({ field, values: spec[field] ?? [] })),
    ...(spec.resources?.devices ?? []).map((device, index) => ({
      field: `resources.devices[${index}].constraints`,
      values: device.constraints ?? [],
    })),
  ];
  for (const { field, values } of constraints) {
    const problem = values.map(constraintProblem).find((each) => each !== undefined);
    if (problem !== undefined) return { reason: "InvalidConstraint", message: `spec.${field}: ${problem}` };
  }
  for (const [index, spread] of (spec.spreads ?? []).entries()) {
    const problem = spreadProblem(spread);
    if (problem !== undefined) return { reason: "InvalidSpread", message: `spec.spreads[${index}].${problem}` };
  }
  return undefined;
}
