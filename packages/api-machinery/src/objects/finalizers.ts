import type { DeepReadonly } from "./json.ts";
import type { KubernetesObject } from "./object.ts";

type WithFinalizers = DeepReadonly<Pick<KubernetesObject, "metadata">>;

/** Reports whether the object has the finalizer. */
export function hasFinalizer(object: WithFinalizers, finalizer: string): boolean {
  return object.metadata.finalizers?.includes(finalizer) ?? false;
}

/** Returns the object's finalizers with one appended; the same list if it is present already. */
export function withFinalizer(object: WithFinalizers, finalizer: string): readonly string[] {
  const finalizers = object.metadata.finalizers ?? [];
  return finalizers.includes(finalizer) ? finalizers : [...finalizers, finalizer];
}

/** Returns the object's finalizers without any occurrence of one; the same list if it is absent. */
export function withoutFinalizer(object: WithFinalizers, finalizer: string): readonly string[] {
  const finalizers = object.metadata.finalizers ?? [];
  return finalizers.includes(finalizer) ? finalizers.filter((one) => one !== finalizer) : finalizers;
}

/** Reports whether the object is being deleted and waits for its finalizers. */
export function isBeingDeleted(object: WithFinalizers): boolean {
  return object.metadata.deletionTimestamp !== undefined && object.metadata.deletionTimestamp !== null;
}
