import { controllerReference, type DeepReadonly, draft, type ObjectMeta } from "@keelson/api-machinery";
import type { PersistentVolumeClaimObject, PodTemplate, StatefulSetObject, Volume } from "@keelson/api-machinery/kinds";
import { type NewPod, podFromTemplate } from "../workload/pod-from-template.ts";
import { revisionLabel } from "../workload/revisions.ts";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Cached } from "../workload/write.ts";

/** A StatefulSet from the cache. */
export type CachedStatefulSet = Cached<StatefulSetObject>;

/** Label of a Pod: its own name, so that a Service can select a single Pod. */
export const podNameLabel = "statefulset.kubernetes.io/pod-name";
/** Label of a Pod: its ordinal. */
export const podIndexLabel = "apps.kubernetes.io/pod-index";

/** A claim to create. */
export interface NewClaim {
  readonly metadata: ObjectMeta;
  readonly spec?: PersistentVolumeClaimObject["spec"];
}

/** The first ordinal of a StatefulSet. */
export function firstOrdinal({ spec }: CachedStatefulSet): number {
  return (spec as { readonly ordinals?: { readonly start?: number } }).ordinals?.start ?? 0;
}

/** The ordinal of a Pod; undefined if its name does not belong to this StatefulSet. */
export function ordinalOf(set: CachedStatefulSet, { metadata: { name = "" } }: CachedPod): number | undefined {
  const prefix = `${set.metadata.name}-`;
  const text = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  return /^(0|[1-9]\d{0,8})$/.test(text) ? Number(text) : undefined;
}

/** The name of a Pod's claim for one of the claim templates. */
export function claimName(set: CachedStatefulSet, template: string, ordinal: number): string {
  return `${template}-${set.metadata.name}-${ordinal}`;
}

/** Builds the Pod of this ordinal from a revision's template. */
export function podOf(set: CachedStatefulSet, template: DeepReadonly<PodTemplate>, revision: string, ordinal: number): NewPod {
  const pod = podFromTemplate(set, template);
  const name = `${set.metadata.name}-${ordinal}`;
  const { generateName: _chosen, ...metadata } = pod.metadata;
  const claims = set.spec.volumeClaimTemplates ?? [];
  const own: Volume[] = claims.map(({ metadata: claim }) => ({
    name: claim?.name ?? "",
    persistentVolumeClaim: { claimName: claimName(set, claim?.name ?? "", ordinal) },
  }));
  const names = new Set(own.map((volume) => volume.name));
  const volumes = [...own, ...(pod.spec.volumes ?? []).filter((volume) => !names.has(volume.name))];
  return {
    metadata: {
      ...metadata,
      name,
      labels: {
        ...metadata.labels,
        [revisionLabel]: revision,
        [podNameLabel]: name,
        [podIndexLabel]: String(ordinal),
      },
    },
    spec: {
      ...pod.spec,
      hostname: name,
      ...(set.spec.serviceName ? { subdomain: set.spec.serviceName } : {}),
      ...(volumes.length > 0 ? { volumes } : {}),
    },
  };
}

/** The claims of the Pod of this ordinal. */
export function claimsOf(set: CachedStatefulSet, ordinal: number): readonly NewClaim[] {
  const { namespace } = set.metadata;
  return (set.spec.volumeClaimTemplates ?? []).map(({ metadata, spec }) => ({
    metadata: {
      name: claimName(set, metadata?.name ?? "", ordinal),
      ...(namespace === undefined ? {} : { namespace }),
      labels: { ...metadata?.labels, ...set.spec.selector.matchLabels },
      ...(metadata?.annotations === undefined ? {} : { annotations: { ...metadata.annotations } }),
      ...(deletesClaimsWithSet(set) ? { ownerReferences: [controllerReference(set)] } : {}),
    },
    ...(spec === undefined ? {} : { spec: draft(spec) }),
  }));
}

/** Whether claims are deleted with the StatefulSet. */
export function deletesClaimsWithSet({ spec }: CachedStatefulSet): boolean {
  return spec.persistentVolumeClaimRetentionPolicy?.whenDeleted === "Delete";
}

/** Whether a claim is deleted when its Pod is scaled away. */
export function deletesClaimsWithPod({ spec }: CachedStatefulSet): boolean {
  return spec.persistentVolumeClaimRetentionPolicy?.whenScaled === "Delete";
}
