import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { parseFieldSelector } from "@keelson/api-machinery/selectors";
import { labelSelectorOf } from "../informer/label-selector.ts";
import { typeId } from "./object-id.ts";

/**
 * Reduces an object before it is cached, so that fields that no controller reads cost no memory. Name, namespace, uid and
 * resourceVersion must be kept. The object may be shared, so return a copy: `{ ...object, data: undefined }`.
 */
export type Transform<T extends KubernetesObject> = (object: DeepReadonly<T>) => DeepReadonly<T>;

/** Which objects of a kind are cached, and how they are transformed. Absent fields select everything and change nothing. */
export interface CacheSelection<T extends KubernetesObject = KubernetesObject> {
  /** In the syntax of `kubectl -l`. */
  readonly labelSelector?: string;
  /** In the syntax of `kubectl --field-selector`: `spec.nodeName=a`. The server decides which fields a kind supports. */
  readonly fieldSelector?: string;
  /**
   * Called once with every state of an object that the server sends. If it throws, the error is logged and the object is cached
   * unchanged.
   */
  readonly transform?: Transform<T>;
}

/** Namespaces to cache: names, or a selection for each name. */
export type CachedNamespaces<T extends KubernetesObject = KubernetesObject> =
  | readonly string[]
  | Readonly<Record<string, CacheSelection<T>>>;

/** What is cached of one kind. Created by {@link cacheOf}. */
export interface CachedKindOptions<T extends KubernetesObject = KubernetesObject> extends CacheSelection<T> {
  readonly type: ResourceType<T>;
  /** Default: the manager's. Ignored for cluster-scoped kinds. */
  readonly namespaces?: CachedNamespaces<T>;
}

/**
 * What is cached, for all kinds and for single ones. For a kind in a namespace, each field is taken from the first of these that sets it: the
 * kind's namespace, the kind, the namespace, here (controller-runtime's order).
 */
export interface CacheOptions extends CacheSelection {
  /** Default: all. */
  readonly namespaces?: CachedNamespaces;
  readonly byObject?: readonly CachedKindOptions[];
  /**
   * How the initial state is read: as `pages` of a list (default), or as a `stream`, a watch that starts with the existing objects
   * (KEP-3157, `sendInitialEvents`). Servers since Kubernetes 1.32 then never hold the complete list in memory. If the server rejects the
   * stream or sends nothing for 10 s, the kind is listed.
   */
  readonly initialList?: "pages" | "stream";
}

/** Declares what is cached of one kind. */
export function cacheOf<T extends KubernetesObject>(
  type: ResourceType<T>,
  options: Omit<CachedKindOptions<T>, "type">,
): CachedKindOptions {
  return { ...options, type } as unknown as CachedKindOptions;
}

/** The selections of a kind by namespace; the key `""` stands for all namespaces. */
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

/** Whether an object may be selected. Fields that only the server can evaluate count as selected. */
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
 * Applies a transform.
 *
 * **Errors**: those of the transform; `TypeError` if it changed the identity or version of the object.
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
    throw new TypeError("a transform must keep metadata.name, namespace, uid and resourceVersion");
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

/** The first defined value of each field. */
function joined(...selections: readonly (CacheSelection | undefined)[]): CacheSelection {
  const first = <K extends keyof CacheSelection>(field: K): Pick<CacheSelection, K> | undefined => {
    const found = selections.find((selection) => selection?.[field] !== undefined);
    return found === undefined ? undefined : ({ [field]: found[field] } as Pick<CacheSelection, K>);
  };
  return { ...first("labelSelector"), ...first("fieldSelector"), ...first("transform") };
}
