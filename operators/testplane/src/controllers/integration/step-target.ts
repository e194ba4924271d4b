import type { DeepReadonly } from "@keelson/api-machinery";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import { desiredPresence } from "../../operations/step-objects.ts";
import { describeTarget, type Observation, type Target } from "../../evaluation/target.ts";
import { numberAt, stringAt, valueAt } from "../../functions/read.ts";

/** A listed target. */
export type KnownObservation = Extract<Observation, { kind: "known" }>;

/** How the object of a step was lost after it was applied, or undefined. */
export function lossOf(
  step: DeepReadonly<TestStep>,
  status: DeepReadonly<StepStatus>,
  target: Target,
  { objects }: KnownObservation,
): string | undefined {
  if (desiredPresence(step) !== "present" || step.resource?.selector !== undefined) return undefined;
  const [object] = objects;
  if (object === undefined) return `${describeTarget(target)} was deleted while the step was waiting`;
  const uid = status.object?.uid;
  return uid === undefined || stringAt(object, "metadata", "uid") === uid
    ? undefined
    : `${describeTarget(target)} was deleted and recreated while the step was waiting`;
}

/** Why an object has not converged yet, or `undefined`. */
export function convergence(
  step: DeepReadonly<TestStep>,
  status: DeepReadonly<StepStatus>,
  target: Target,
  { objects, hasSeen }: KnownObservation,
): { readonly message: string; readonly isLost?: boolean } | undefined {
  const presence = desiredPresence(step);
  // A selector only reads. Its checks also see the absence of objects.
  if (presence === undefined || step.resource?.selector !== undefined) return undefined;
  const [object] = objects;
  const applied = status.object;
  if (presence === "absent") {
    if (object === undefined) return undefined;
    const finalizers = valueAt(object, "metadata", "finalizers");
    const held = Array.isArray(finalizers) && finalizers.length > 0 ? `; waiting for finalizers ${finalizers.join(", ")}` : "";
    const again =
      applied?.uid !== undefined && stringAt(object, "metadata", "uid") !== applied.uid ? "; it was deleted and recreated" : "";
    return { message: `${describeTarget(target)} still exists${held}${again}` };
  }
  if (applied?.resourceVersion !== undefined && !hasSeen(applied.resourceVersion)) {
    return { message: `waiting for the applied version of ${describeTarget(target)}` };
  }
  if (object === undefined) return { message: `${describeTarget(target)} was deleted after it was applied`, isLost: true };
  const generation = numberAt(object, ["metadata", "generation"], 0);
  const observed = valueAt(object, "status", "observedGeneration");
  if (typeof observed !== "number" || observed >= generation) return undefined;
  return { message: `${describeTarget(target)}: its controller has observed generation ${observed} of ${generation}` };
}
