import {
  controllerReference,
  type DeepReadonly,
  getController,
  type KubernetesObject,
  type OwnerReference,
  type ResourceType,
} from "@keelson/api-machinery";
import { type LabelSelector, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Seen, Write } from "./write.ts";

/** The value of the index {@link byController} for objects of a namespace that no controller owns. */
export function orphansOf(namespace: string | undefined): string {
  return `orphans/${namespace ?? ""}`;
}

/** Index of objects by the uid of their controller; those without are under {@link orphansOf} their namespace. */
export function byController(object: DeepReadonly<KubernetesObject>): readonly string[] {
  return [getController(object)?.uid ?? orphansOf(object.metadata.namespace)];
}

/** Name of the index that {@link byController} computes. */
export const controllerIndex = "controller";

/** The selector of a workload. A malformed or empty one selects nothing: it would take every object of the namespace. */
export function workloadSelector(selector: DeepReadonly<LabelSelector> | undefined): Selector {
  const compiled = selectorFromObject(selector as LabelSelector | undefined);
  return compiled.isEmpty ? selectorFromObject(undefined) : compiled;
}

/** What an owner has, and what it takes and lets go so that it has what its selector selects. */
export interface Claims<T extends KubernetesObject> {
  readonly owned: readonly Seen<T>[];
  readonly writes: readonly Write[];
}

/**
 * Adoption and release (KEP of controllerRef): of what it controls, an owner keeps what its selector matches and lets go the
 * rest; of what nobody controls, it takes what matches. While it is being deleted it does neither.
 */
export function claim<T extends KubernetesObject>(
  owner: Seen,
  selector: Selector,
  type: ResourceType<T>,
  candidates: readonly Seen<T>[],
): Claims<T> {
  const { uid, deletionTimestamp } = owner.metadata;
  const owned: Seen<T>[] = [];
  const writes: Write[] = [];
  for (const candidate of candidates) {
    const object: Seen = candidate as Seen;
    const { ownerReferences = [], labels, deletionTimestamp: going } = object.metadata;
    const controller = getController(object);
    const isMatching = selector.matches(labels);
    if (controller?.uid === uid) {
      if (isMatching) owned.push(candidate);
      else if (deletionTimestamp === undefined) {
        writes.push(
          reown(
            type,
            object,
            ownerReferences.filter((reference) => reference.uid !== uid),
          ),
        );
      }
    } else if (controller === undefined && isMatching && deletionTimestamp === undefined && going === undefined) {
      const others = ownerReferences.filter((reference) => reference.uid !== uid);
      writes.push(reown(type, object, [...others, controllerReference(owner)]));
    }
  }
  return { owned, writes };
}

function reown(type: ResourceType, object: Seen, ownerReferences: readonly DeepReadonly<OwnerReference>[]): Write {
  return { kind: "patch", type, object, body: { metadata: { ownerReferences } } };
}
