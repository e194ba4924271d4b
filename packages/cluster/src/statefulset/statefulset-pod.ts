import { controllerReference, type DeepReadonly, draft, type ObjectMeta } from "@keelson/api-machinery";
import type { PersistentVolumeClaimObject, PodTemplate, StatefulSetObject, Volume } from "@keelson/api-machinery/kinds";
import { type NewPod, podFromTemplate } from "../workload/pod-from-template.ts";
import type { SeenPod } from "../workload/pod-state.ts";
import type { Seen } from "../workload/write.ts";

/** A StatefulSet as it is read. */
export type SeenStatefulSet = Seen<StatefulSetObject>;

/** Label of a Pod: its own name, so that a Service can select one. */
export const podNameLabel = "statefulset.kubernetes.io/pod-name";
/** Label of a Pod: its ordinal. */
export const podIndexLabel = "apps.kubernetes.io/pod-index";
/** Label of a Pod: the name of the ControllerRevision that it was made of. */
export const revisionLabel = "controller-revision-hash";

/** A claim that is to be made. */
export interface NewClaim {
  readonly metadata: ObjectMeta;
  readonly spec?: PersistentVolumeClaimObject["spec"];
}

/** The first ordinal of a StatefulSet. */
export function firstOrdinal({ spec }: SeenStatefulSet): number {
  return (spec as { readonly ordinals?: { readonly start?: number } }).ordinals?.start ?? 0;
}

/** The ordinal of a Pod of this StatefulSet; undefined where the name is not of the kind that it gives. */
export function ordinalOf(set: SeenStatefulSet, { metadata: { name = "" } }: SeenPod): number | undefined {
  const prefix = `${set.metadata.name}-`;
  const text = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  return /^(0|[1-9]\d{0,8})$/.test(text) ? Number(text) : undefined;
}

/** The name of the claim of one Pod for one of the claim templates. */
export function claimName(set: SeenStatefulSet, template: string, ordinal: number): string {
  return `${template}-${set.metadata.name}-${ordinal}`;
}

/** The Pod of this ordinal, made of this revision of the template. */
export function podOf(set: SeenStatefulSet, template: DeepReadonly<PodTemplate>, revision: string, ordinal: number): NewPod {
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
export function claimsOf(set: SeenStatefulSet, ordinal: number): readonly NewClaim[] {
  const { namespace } = set.metadata;
  return (set.spec.volumeClaimTemplates ?? []).map(({ metadata, spec }) => ({
    metadata: {
      name: claimName(set, metadata?.name ?? "", ordinal),
      ...(namespace === undefined ? {} : { namespace }),
      labels: { ...metadata?.labels, ...set.spec.selector.matchLabels },
      ...(metadata?.annotations === undefined ? {} : { annotations: { ...metadata.annotations } }),
      ...(deletesClaimsWithSet(set) ? { ownerReferences: [controllerReference(set)] } : {}),
    },
    ...(spec === undefined ? {} : { spec: draft(spec) as NonNullable<PersistentVolumeClaimObject["spec"]> }),
  }));
}

/** Whether the claims go with the StatefulSet. */
export function deletesClaimsWithSet({ spec }: SeenStatefulSet): boolean {
  return spec.persistentVolumeClaimRetentionPolicy?.whenDeleted === "Delete";
}

/** Whether a claim goes with its Pod when the StatefulSet shrinks. */
export function deletesClaimsWithPod({ spec }: SeenStatefulSet): boolean {
  return spec.persistentVolumeClaimRetentionPolicy?.whenScaled === "Delete";
}
