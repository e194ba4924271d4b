import { type DeepReadonly, type KubernetesObject, parseApiVersion, type ResourceType } from "@keelson/api-machinery";
import { idOf, keyOfObject } from "./object-id.ts";
import type { CachedKind } from "./shared-cache.ts";
import type { SharedCache } from "./shared-cache.ts";
import type { Change, ControllerDefinition, Predicate, Request } from "./reconcile.ts";

type ObjectMapping = (object: DeepReadonly<KubernetesObject>) => readonly Request[];

/** A kind that a controller is triggered by: which changes of it pass, and which requests they lead to. */
export interface Source {
  readonly kind: CachedKind;
  readonly requestsOf: (change: Change<KubernetesObject>) => readonly Request[];
}

/** The sources of a controller, its kinds declared in the cache. */
export function sourcesOf(definition: ControllerDefinition, cache: SharedCache): readonly Source[] {
  const make = (type: ResourceType, map: ObjectMapping, predicates?: readonly Predicate<KubernetesObject>[]): Source => ({
    kind: cache.declare(type),
    requestsOf: (change) => (predicates?.every((passes) => passes(change)) === false ? [] : requestsOf(change, map)),
  });
  return [
    make(definition.for, (object) => [keyOfObject(object)], definition.predicates),
    ...definition.owns.map((type) => make(type, (object) => controllersOf(object, definition.for))),
    ...definition.watches.map((watch) => make(watch.type, (object) => watch.map(object, { cache }), watch.predicates)),
  ];
}

/** Both sides of an update are mapped: who no longer owns an object has to learn of it. */
function requestsOf(change: Change<KubernetesObject>, map: ObjectMapping): readonly Request[] {
  if (change.type !== "update" || change.old === undefined || change.old === change.object) return map(change.object);
  const requests = new Map<string, Request>();
  for (const request of map(change.object)) requests.set(idOf(request), request);
  for (const request of map(change.old)) if (!requests.has(idOf(request))) requests.set(idOf(request), request);
  return [...requests.values()];
}

/** Requests for the controller owner of an object, if it is of this kind. Versions of a kind are not told apart. */
export function controllersOf(object: DeepReadonly<KubernetesObject>, type: ResourceType): readonly Request[] {
  const owner = object.metadata.ownerReferences?.find((reference) => reference.controller === true);
  if (owner === undefined || owner.kind !== type.kind || parseApiVersion(owner.apiVersion).group !== type.group) return [];
  if (type.scope === "Cluster") return [{ name: owner.name }];
  return object.metadata.namespace === undefined ? [] : [{ namespace: object.metadata.namespace, name: owner.name }];
}
