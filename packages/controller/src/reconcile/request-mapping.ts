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

/** A kind that triggers a controller, and the requests that its changes lead to. */
export interface Source {
  readonly kind: CachedKind;
  readonly requestsOf: (change: Change<KubernetesObject>) => readonly Request[];
}

/**
 * The sources of a controller. Declares its kinds in the cache.
 *
 * Errors of user functions are passed to `onError`. If a predicate throws, the change passes, because a needless reconcile does no harm. If the
 * map function throws for one side of an update, the other side still counts.
 */
export function sourcesOf(
  definition: ControllerDefinition,
  cache: SharedCache,
  onError: (what: string, change: Change<KubernetesObject>, error: unknown) => void,
): readonly Source[] {
  const createSource = (
    type: ResourceType,
    map: ObjectMapping,
    predicates: readonly Predicate<KubernetesObject>[] = [],
  ): Source => ({
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
    createSource(definition.for, (object) => [objectKey(object)], definition.predicates),
    ...definition.owns.map((type) => createSource(type, (object) => controllersOf(object, definition.for))),
    ...definition.watches.map((watch) =>
      createSource(watch.type, (object) => watch.map(object as Stored, { cache }), watch.predicates),
    ),
  ];
}

/** Maps both sides of an update, so that a former owner is reconciled too. */
function requestsOf(change: Change<KubernetesObject>, map: ObjectMapping): readonly Request[] {
  if (change.type !== "update" || change.old === undefined || change.old === change.object) return map(change.object);
  const requests = new Map<string, Request>();
  for (const request of map(change.object)) requests.set(idOf(request), request);
  for (const request of map(change.old)) if (!requests.has(idOf(request))) requests.set(idOf(request), request);
  return [...requests.values()];
}

/** Requests for the controller owner of an object, if it is of this kind, in any version. */
function controllersOf(object: DeepReadonly<KubernetesObject>, type: ResourceType): readonly Request[] {
  const owner = object.metadata.ownerReferences?.find((reference) => reference.controller === true);
  return owner === undefined ? [] : requestsFor([owner], object, type);
}

/**
 * For `watchOf`: maps an object to every owner of this kind, in any version. `owns` maps it to its controller owner only.
 */
export function mapToOwners(type: ResourceType): ObjectMapping {
  return (object) => requestsFor(object.metadata.ownerReferences ?? [], object, type);
}

function requestsFor(
  owners: readonly DeepReadonly<OwnerReference>[],
  { metadata: { namespace } }: DeepReadonly<KubernetesObject>,
  type: ResourceType,
): readonly Request[] {
  // A cluster-scoped object cannot have an owner in a namespace.
  if (type.scope !== "Cluster" && namespace === undefined) return [];
  return owners
    .filter(({ kind, apiVersion }) => kind === type.kind && parseApiVersion(apiVersion).group === type.group)
    .map(({ name }) => (type.scope === "Cluster" || namespace === undefined ? { name } : { namespace, name }));
}
