import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { labelSelectorOf } from "../informer/label-selector.ts";
import type { Change } from "../cache/change.ts";
import type { Predicate } from "./controller-definition.ts";

/**
 * Passes updates that changed `metadata.generation`: changes of the spec, not of the status or the metadata. Creates and deletes pass, and
 * so does an object that was recreated with the same generation, because it arrives as a delete and a create. A kind without the status
 * subresource raises the generation for status changes too. Most kinds of the core group have no generation: no update of a
 * ConfigMap or Secret passes.
 */
export const generationChanged: Predicate<KubernetesObject> = (change) =>
  hasChanged(change, ({ metadata }) => metadata.generation);

/** Passes updates that changed the object in any way, but not resyncs. */
export const resourceVersionChanged: Predicate<KubernetesObject> = (change) =>
  hasChanged(change, ({ metadata }) => metadata.resourceVersion);

/** Passes updates that changed a label. */
export const labelChanged: Predicate<KubernetesObject> = (change) =>
  hasChanged(change, ({ metadata }) => metadata.labels ?? {});

/** Passes updates that changed an annotation. */
export const annotationChanged: Predicate<KubernetesObject> = (change) =>
  hasChanged(change, ({ metadata }) => metadata.annotations ?? {});

/** Passes updates that started the deletion. `generationChanged` passes them too, because deletion raises the generation. */
export const deletionStarted: Predicate<KubernetesObject> = (change) =>
  hasChanged(change, ({ metadata }) => metadata.deletionTimestamp !== undefined);

/** Passes changes of objects whose labels match the selector, before or after the update. */
export function labelSelected(selector: string): Predicate<KubernetesObject> {
  const parsed = labelSelectorOf(selector);
  return ({ object, old }) =>
    parsed.matches(object.metadata.labels) || (old !== undefined && parsed.matches(old.metadata.labels));
}

/** Passes changes that all of the predicates pass. */
export function and<T extends KubernetesObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.every((passes) => passes(change));
}

/** Passes changes that at least one of the predicates passes. */
export function or<T extends KubernetesObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.some((passes) => passes(change));
}

/** Passes changes that the predicate does not pass. */
export function not<T extends KubernetesObject>(predicate: Predicate<T>): Predicate<T> {
  return (change) => !predicate(change);
}

function hasChanged(change: Change<KubernetesObject>, valueOf: (object: DeepReadonly<KubernetesObject>) => unknown): boolean {
  return change.type !== "update" || change.old === undefined || !jsonEquals(valueOf(change.object), valueOf(change.old));
}
