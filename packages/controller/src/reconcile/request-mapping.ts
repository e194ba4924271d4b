import {
  type DeepReadonly,
  type KubernetesObject,
  type OwnerReference,
  parseApiVersion,
  type ResourceType,
  type Stored,
} from "@keelson/api-machinery";
import { idOf, objectKey } from "../cache/object-id.ts";
import type { CachedKind } from "../cache/cached-kind.ts";
import type { SharedCache } from "../cache/shared-cache.ts";
import type { Change } from "../cache/change.ts";
import type { ControllerDefinition, Predicate } from "./controller-definition.ts";
import type { Request } from "./result.ts";

type ObjectMapping = (object: DeepReadonly<KubernetesObject>) => readonly Request[];

/** A kind that a controller is triggered by: which changes of it pass, and which requests they lead to. */
export interface Source {
  readonly kind: CachedKind;
  readonly requestsOf: (change: Change<KubernetesObject>) => readonly Request[];
}

/**
 * The sources of a controller, its kinds declared in the cache.
 *
 * What a user's function throws is told to `onError` and loses nothing that can be kept: a change that a predicate failed on
 * passes, as a reconcile too many does no harm; of an update that the map function fails on for one side, the other counts.
 */
export function sourcesOf(
  definition: ControllerDefinition,
  cache: SharedCache,
  onError: (what: string, change: Change<KubernetesObject>, error: unknown) => void,
): readonly Source[] {
  const make = (type: ResourceType, map: ObjectMapping, predicates: readonly Predicate<KubernetesObject>[] = []): Source => ({
    kind: cache.declare(type),
    requestsOf(change) {
      for (const passes of predicates) {
        try {
          if (!passes(change)) return [];
        } catch (error) {
          onError("predicate", change, error);
        }
      }
      return requestsOf(change, (object) => {
        try {
          return map(object);
        } catch (error) {
          onError("map function", change, error);
          return [];
        }
      });
    },
  });
  return [
    make(definition.for, (object) => [objectKey(object)], definition.predicates),
    ...definition.owns.map((type) => make(type, (object) => controllersOf(object, definition.for))),
    ...definition.watches.map((watch) =>
      make(watch.type, (object) => watch.map(object as Stored, { cache }), watch.predicates),
    ),
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
function controllersOf(object: DeepReadonly<KubernetesObject>, type: ResourceType): readonly Request[] {
  const owner = object.metadata.ownerReferences?.find((reference) => reference.controller === true);
  return owner === undefined ? [] : requestsFor([owner], object, type);
}

/**
 * For `watchOf`: maps an object to every owner of this kind, where `owns` maps it to the one that controls it. Versions of a kind
 * are not told apart.
 */
export function mapToOwners(type: ResourceType): ObjectMapping {
  return (object) => requestsFor(object.metadata.ownerReferences ?? [], object, type);
}

function requestsFor(
  owners: readonly DeepReadonly<OwnerReference>[],
  { metadata: { namespace } }: DeepReadonly<KubernetesObject>,
  type: ResourceType,
): readonly Request[] {
  // What has no namespace cannot be owned by something that is in one.
  if (type.scope !== "Cluster" && namespace === undefined) return [];
  return owners
    .filter(({ kind, apiVersion }) => kind === type.kind && parseApiVersion(apiVersion).group === type.group)
    .map(({ name }) => (type.scope === "Cluster" || namespace === undefined ? { name } : { namespace, name }));
}
