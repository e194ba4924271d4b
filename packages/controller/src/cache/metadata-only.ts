import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** A kind of which only `apiVersion`, `kind` and `metadata` are wanted. Made by {@link metadataOf}. */
export interface MetadataOnlyType extends ResourceType {
  readonly metadataOnly: true;
}

/**
 * The same kind with nothing but its metadata, for `owns`, `watches`, `reads` and the cache: an informer of its own, which asks
 * the server for no more (`PartialObjectMetadata`) and keeps no more. For kinds that are many or large and of which names,
 * labels or owners are enough; a Secret's content never comes into this process.
 *
 * **Example**
 *
 *     defineController({ ..., owns: [metadataOf(Secret)], reconcile: (request, { cache }) => cache.list(metadataOf(Secret), ...) })
 */
export function metadataOf({ group, version, kind, plural, scope }: ResourceType): MetadataOnlyType {
  return { group, version, kind, plural, scope, metadataOnly: true };
}

/** Whether only the metadata of this kind is wanted. */
export function isMetadataOnly(type: ResourceType): type is MetadataOnlyType & ResourceType<KubernetesObject> {
  return (type as Partial<MetadataOnlyType>).metadataOnly === true;
}
