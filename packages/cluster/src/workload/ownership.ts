import {
  controllerReference,
  type DeepReadonly,
  getController,
  type KubernetesObject,
  type OwnerReference,
  type ResourceType,
} from "@keelson/api-machinery";
import { type LabelSelector, nothing, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";
import { compiledOnce } from "./compiled-once.ts";
import type { Cached, Write } from "./write.ts";

/** The value of the index {@link byController} for objects of a namespace without a controller. */
export function orphansOf(namespace: string | undefined): string {
  return `orphans/${namespace ?? ""}`;
}

/** Indexes objects by the uid of their controller; orphans by {@link orphansOf} their namespace. */
export function byController(object: DeepReadonly<KubernetesObject>): readonly string[] {
  return [getController(object)?.uid ?? orphansOf(object.metadata.namespace)];
}

/** The name of the index that {@link byController} computes. */
export const controllerIndex = "controller";

const compile = compiledOnce((selector: DeepReadonly<LabelSelector>) => {
  const compiled = selectorFromObject(selector as LabelSelector);
  return compiled.isEmpty ? nothing : compiled;
});

/** Compiles the selector of a workload. A malformed or empty selector selects nothing; otherwise it would adopt the whole namespace. */
export function workloadSelector(selector: DeepReadonly<LabelSelector> | undefined): Selector {
  return selector === undefined ? nothing : compile(selector);
}

/** The objects that an owner controls, and the writes that adopt or release others. */
export interface Claims<T extends KubernetesObject> {
  readonly owned: readonly Cached<T>[];
  readonly writes: readonly Write[];
}

/**
 * Adoption and release, as in kube-controller-manager's ControllerRefManager: an owner keeps controlled objects that match its
 * selector, releases the others, and adopts matching orphans. An owner that is being deleted does neither.
 */
export function claim<T extends KubernetesObject>(
  owner: Cached,
  selector: Selector,
  type: ResourceType<T>,
  candidates: readonly Cached<T>[],
): Claims<T> {
  const { uid, deletionTimestamp } = owner.metadata;
  const owned: Cached<T>[] = [];
  const writes: Write[] = [];
  for (const candidate of candidates) {
    const object: Cached = candidate;
    const { ownerReferences = [], labels, deletionTimestamp: candidateDeletion } = object.metadata;
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
    } else if (controller === undefined && isMatching && deletionTimestamp === undefined && candidateDeletion === undefined) {
      const others = ownerReferences.filter((reference) => reference.uid !== uid);
      writes.push(reown(type, object, [...others, controllerReference(owner)]));
    }
  }
  return { owned, writes };
}

function reown(type: ResourceType, object: Cached, ownerReferences: readonly DeepReadonly<OwnerReference>[]): Write {
  return { kind: "patch", type, object, body: { metadata: { ownerReferences } } };
}
