import type { DeepReadonly } from "@keelson/api-machinery";
import type { TestStep } from "../api/test-step.ts";
import { type Target, targetOf } from "../evaluation/target.ts";
import { expandManifest } from "../manifests/manifest.ts";
import { hasProgram } from "../programs/program-pod.ts";

type Step = DeepReadonly<TestStep>;

/** Whether a step has an action that a controller performs, in contrast to a step that only waits and checks. */
export const hasAction = (step: Step): boolean =>
  step.resource?.manifest !== undefined ||
  hasProgram(step) ||
  [step.apply, step.create, step.patch, step.delete, step.scale].some((each) => each !== undefined);

/** The manifests that a step applies or creates. */
export function manifestsOf({ apply, create, resource }: Step): readonly DeepReadonly<Record<string, unknown>>[] {
  if (resource?.manifest !== undefined) return resource.action === "Delete" ? [] : [resource.manifest];
  return (apply ?? create)?.manifests.flatMap((manifest) => expandManifest(manifest)) ?? [];
}

/**
 * The objects that the checks of a step are about: those of its selector, otherwise the first object of its action. `namespace`: that of
 * objects that name none.
 */
export function stepTarget(step: Step, namespace: string): Target | undefined {
  const target = localTarget(step, namespace);
  return target === undefined || step.cluster === undefined ? target : { ...target, cluster: step.cluster };
}

function localTarget(step: Step, namespace: string): Target | undefined {
  if (step.resource !== undefined) return targetOf(step.resource, namespace);
  const object = (step.patch ?? step.delete ?? step.scale)?.object;
  if (object !== undefined) return { ...object, namespace: object.namespace ?? namespace };
  const [first] = manifestsOf(step);
  return first === undefined ? undefined : targetOf({ manifest: first }, namespace);
}

/** Whether the object of a step's action must exist after it, or must not. Undefined without an action. */
export function desiredPresence(step: Step): "present" | "absent" | undefined {
  if (!hasAction(step) || step.expectError !== undefined) return undefined;
  return step.delete !== undefined || step.resource?.action === "Delete" ? "absent" : "present";
}
