import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** A kind reduced to `apiVersion`, `kind` and `metadata`. Created by {@link metadataOf}. */
export interface MetadataOnlyType extends ResourceType {
  readonly metadataOnly: true;
}

/**
 * The same kind reduced to its metadata, for `owns`, `watches`, `reads` and the cache. It has its own informer, which requests
 * `PartialObjectMetadata` and stores nothing else. Use it for kinds with many or large objects whose names,
 * labels or owners are sufficient; the content of a Secret, for example, then never enters this process.
 *
 * **Example**
 *
 *     defineController({ ..., owns: [metadataOf(Secret)], reconcile: (request, { cache }) => cache.list(metadataOf(Secret), ...) })
 */
export function metadataOf({ group, version, kind, plural, scope }: ResourceType): MetadataOnlyType {
  return { group, version, kind, plural, scope, metadataOnly: true };
}

/** Whether this kind is reduced to its metadata. */
export function isMetadataOnly(type: ResourceType): type is MetadataOnlyType & ResourceType<KubernetesObject> {
  return (type as Partial<MetadataOnlyType>).metadataOnly === true;
}
