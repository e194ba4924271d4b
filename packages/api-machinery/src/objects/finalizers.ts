import type { DeepReadonly } from "./json.ts";
import type { KubernetesObject } from "./object.ts";

type WithFinalizers = DeepReadonly<Pick<KubernetesObject, "metadata">>;

/** Whether the object has this finalizer. */
export function hasFinalizer(object: WithFinalizers, finalizer: string): boolean {
  return object.metadata.finalizers?.includes(finalizer) ?? false;
}

/** The object's finalizers with this one: at the end, where it is not there yet; else the very same list. */
export function withFinalizer(object: WithFinalizers, finalizer: string): readonly string[] {
  const finalizers = object.metadata.finalizers ?? [];
  return finalizers.includes(finalizer) ? finalizers : [...finalizers, finalizer];
}

/** The object's finalizers without this one, however often it is there; the very same list where it is not. */
export function withoutFinalizer(object: WithFinalizers, finalizer: string): readonly string[] {
  const finalizers = object.metadata.finalizers ?? [];
  return finalizers.includes(finalizer) ? finalizers.filter((one) => one !== finalizer) : finalizers;
}

/** Whether the object waits for its finalizers to go. */
export function isBeingDeleted(object: WithFinalizers): boolean {
  return object.metadata.deletionTimestamp !== undefined && object.metadata.deletionTimestamp !== null;
}
