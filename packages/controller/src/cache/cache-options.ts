import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { parseFieldSelector } from "@keelson/api-machinery/selectors";
import { labelSelectorOf } from "../informer/label-selector.ts";
import { typeId } from "./object-id.ts";

/**
 * Makes of an object what the cache is to hold of it, so that what no controller reads costs no memory. Name, namespace, uid and
 * resourceVersion have to stay. The object may be shared and is not to be changed: return a copy (`{ ...object, data: undefined }`).
 */
export type Transform<T extends KubernetesObject> = (object: DeepReadonly<T>) => DeepReadonly<T>;

/** Which objects of a kind are cached, and what of them. Absent fields select everything and change nothing. */
export interface CacheSelection<T extends KubernetesObject = KubernetesObject> {
  /** As `kubectl -l` takes it. */
  readonly labelSelector?: string;
  /** As `kubectl --field-selector` takes it: `spec.nodeName=a`. Which fields a kind has is the server's to say. */
  readonly fieldSelector?: string;
  /**
   * Called once with every state of an object that the server sends. One that throws is logged, and the object kept as it came:
   * nothing is missed.
   */
  readonly transform?: Transform<T>;
}

/** Namespaces: their names, or what of each is cached by name. */
export type CachedNamespaces<T extends KubernetesObject = KubernetesObject> =
  | readonly string[]
  | Readonly<Record<string, CacheSelection<T>>>;

/** What of one kind is cached. Made by {@link cacheOf}. */
export interface CachedKindOptions<T extends KubernetesObject = KubernetesObject> extends CacheSelection<T> {
  readonly type: ResourceType<T>;
  /** Default: the manager's. Cluster-scoped kinds have none. */
  readonly namespaces?: CachedNamespaces<T>;
}

/**
 * What of the kinds is cached: of every kind, and of single ones. Of a kind in a namespace, a field counts that is set first in:
 * the kind's namespace, the kind, the namespace, here (controller-runtime's order).
 */
export interface CacheOptions extends CacheSelection {
  /** Default: all. */
  readonly namespaces?: CachedNamespaces;
  readonly byObject?: readonly CachedKindOptions[];
  /**
   * How the first state is had: `pages` of a list (default), or `stream`, a watch that begins with all there is (KEP-3157,
   * `sendInitialEvents`): a server of Kubernetes 1.32 and newer then never holds the list in memory at once. A server that refuses,
   * or brings nothing for 10 s, is listed.
   */
  readonly initialList?: "pages" | "stream";
}

/** Declares what of one kind is cached. */
export function cacheOf<T extends KubernetesObject>(
  type: ResourceType<T>,
  options: Omit<CachedKindOptions<T>, "type">,
): CachedKindOptions {
  return { ...options, type } as unknown as CachedKindOptions;
}

/** What is cached of a kind, by namespace; the key `""` is all namespaces. */
export function selectionsOf(type: ResourceType, options: CacheOptions): ReadonlyMap<string, CacheSelection> {
  const id = typeId(type);
  const own = options.byObject?.find((each) => typeId(each.type) === id);
  const ownNamespaces = byName(own?.namespaces);
  const allNamespaces = byName(options.namespaces);
  const namespaces = type.scope === "Cluster" ? undefined : (ownNamespaces ?? allNamespaces);
  if (namespaces === undefined) return new Map([["", joined(own, options)]]);
  return new Map(
    [...namespaces.keys()].map((name) => [name, joined(ownNamespaces?.get(name), own, allNamespaces?.get(name), options)]),
  );
}

/** Whether an object may be among those that are selected. Fields that only the server can tell count as selected. */
export function mayBeSelected(selection: CacheSelection, { metadata }: DeepReadonly<KubernetesObject>): boolean {
  const { labelSelector, fieldSelector } = selection;
  if (labelSelector !== undefined && !labelSelectorOf(labelSelector).matches(metadata.labels)) return false;
  if (fieldSelector === undefined) return true;
  const known: Readonly<Record<string, string | undefined>> = {
    "metadata.name": metadata.name,
    "metadata.namespace": metadata.namespace,
  };
  return parseFieldSelector(fieldSelector).requirements.every(
    ({ field, operator, value }) => !Object.hasOwn(known, field) || ((known[field] ?? "") === value) === (operator === "="),
  );
}

/**
 * What a transform makes of an object.
 *
 * **Errors**: what the transform throws, and `TypeError` where it changed what the cache knows the object by.
 */
export function transformed(
  transform: Transform<KubernetesObject>,
  object: DeepReadonly<KubernetesObject>,
): DeepReadonly<KubernetesObject> {
  const { name, namespace, uid, resourceVersion } = object.metadata;
  const result = transform(object);
  const after = result?.metadata;
  if (
    after?.name !== name ||
    after?.namespace !== namespace ||
    after?.uid !== uid ||
    after?.resourceVersion !== resourceVersion
  ) {
    throw new TypeError("a transform has to keep metadata.name, namespace, uid and resourceVersion");
  }
  return result;
}

function byName(namespaces: CachedNamespaces | undefined): ReadonlyMap<string, CacheSelection> | undefined {
  if (namespaces === undefined) return undefined;
  return new Map(isNames(namespaces) ? namespaces.map((name) => [name, {}]) : Object.entries(namespaces));
}

function isNames(namespaces: CachedNamespaces): namespaces is readonly string[] {
  return Array.isArray(namespaces);
}

/** The first of each field that is set. */
function joined(...selections: readonly (CacheSelection | undefined)[]): CacheSelection {
  const first = <K extends keyof CacheSelection>(field: K): Pick<CacheSelection, K> | undefined => {
    const found = selections.find((selection) => selection?.[field] !== undefined);
    return found === undefined ? undefined : ({ [field]: found[field] } as Pick<CacheSelection, K>);
  };
  return { ...first("labelSelector"), ...first("fieldSelector"), ...first("transform") };
}
