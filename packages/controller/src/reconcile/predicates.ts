import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { labelSelectorOf } from "../informer/label-selector.ts";
import type { Change } from "../cache/change.ts";
import type { Predicate } from "./controller-definition.ts";

/**
 * Passes updates that changed `metadata.generation`: the spec, not the status or the metadata. Creates and deletes pass, and
 * so does a namesake made anew with the same generation, as it comes as a delete and a create. A kind without the status
 * subresource raises the generation with its status too. Most built-in kinds of the core group have no generation: no update of a
 * ConfigMap or Secret passes.
 */
export const generationChanged: Predicate<KubernetesObject> = (change) =>
  isOther(change, ({ metadata }) => metadata.generation);

/** Passes updates that changed the object at all; a resync does not pass. */
export const resourceVersionChanged: Predicate<KubernetesObject> = (change) =>
  isOther(change, ({ metadata }) => metadata.resourceVersion);

/** Passes updates that changed a label. */
export const labelChanged: Predicate<KubernetesObject> = (change) => isOther(change, ({ metadata }) => metadata.labels ?? {});

/** Passes updates that changed an annotation. */
export const annotationChanged: Predicate<KubernetesObject> = (change) =>
  isOther(change, ({ metadata }) => metadata.annotations ?? {});

/** Passes updates on which deletion began; `generationChanged` passes them too, as deletion raises the generation. */
export const deletionStarted: Predicate<KubernetesObject> = (change) =>
  isOther(change, ({ metadata }) => metadata.deletionTimestamp !== undefined);

/** Passes changes of objects whose labels are selected, now or before the update. */
export function labelSelected(selector: string): Predicate<KubernetesObject> {
  const parsed = labelSelectorOf(selector);
  return ({ object, old }) =>
    parsed.matches(object.metadata.labels) || (old !== undefined && parsed.matches(old.metadata.labels));
}

/** Passes what every one passes. */
export function and<T extends KubernetesObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.every((passes) => passes(change));
}

/** Passes what any one passes. */
export function or<T extends KubernetesObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.some((passes) => passes(change));
}

/** Passes what the predicate does not. */
export function not<T extends KubernetesObject>(predicate: Predicate<T>): Predicate<T> {
  return (change) => !predicate(change);
}

function isOther(change: Change<KubernetesObject>, valueOf: (object: DeepReadonly<KubernetesObject>) => unknown): boolean {
  return change.type !== "update" || change.old === undefined || !jsonEquals(valueOf(change.object), valueOf(change.old));
}
