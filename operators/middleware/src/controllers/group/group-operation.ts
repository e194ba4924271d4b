import { formatTime } from "@keelson/api-machinery/time";
import type { ErrorClass, Operation } from "../../api/parts.ts";

const maxSteps = 50;

/** Finishes an operation. Mutates it. */
export function finish(operation: Operation, phase: Operation["phase"], message: string, errorClass?: ErrorClass): void {
  operation.phase = phase;
  operation.message = message;
  if (errorClass !== undefined) operation.errorClass = errorClass;
}

/** An operation with one more recorded step. */
export function withStep(operation: Operation, target: string, action: string, now: number): Operation {
  return {
    ...operation,
    steps: [...(operation.steps ?? []), { target, action, at: formatTime(now) }].slice(-maxSteps),
  };
}
