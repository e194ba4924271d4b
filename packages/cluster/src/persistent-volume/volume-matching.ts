import type { PersistentVolumeObject } from "@keelson/api-machinery/kinds";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Claim } from "../workload/cached-objects.ts";
import type { Cached } from "../workload/write.ts";

/** A PersistentVolume from the cache. */
export type CachedVolume = Cached<PersistentVolumeObject>;

/** The storage that a claim requests. */
export function requestOf(claim: Claim): string {
  const request = claim.spec?.resources?.requests?.["storage"];
  return isQuantity(request) ? request : "0";
}

/** The capacity of a volume. */
export function capacityOf({ spec }: CachedVolume): string {
  const capacity = spec?.capacity?.["storage"];
  return isQuantity(capacity) ? capacity : "0";
}

/** Whether a volume is reserved for, or bound to, this claim. */
export function isFor({ spec }: CachedVolume, { metadata }: Claim): boolean {
  const { namespace, name, uid } = spec?.claimRef ?? {};
  return (
    name === metadata.name && namespace === metadata.namespace && (uid === undefined || uid === "" || uid === metadata.uid)
  );
}

/** The volume for an unbound claim: one reserved for it, else the smallest that fits. */
export function matchVolume(claim: Claim, volumes: readonly CachedVolume[]): CachedVolume | undefined {
  const selector = claim.spec?.selector;
  const suits = (volume: CachedVolume): boolean =>
    volume.metadata.deletionTimestamp === undefined &&
    (volume.spec?.storageClassName ?? "") === (claim.spec?.storageClassName ?? "") &&
    (volume.spec?.volumeMode ?? "Filesystem") === (claim.spec?.volumeMode ?? "Filesystem") &&
    (claim.spec?.accessModes ?? []).every((mode) => volume.spec?.accessModes?.includes(mode)) &&
    compareQuantities(capacityOf(volume), requestOf(claim)) >= 0;
  const kept = volumes.find((volume) => volume.spec?.claimRef !== undefined && isFor(volume, claim) && suits(volume));
  if (kept !== undefined) return kept;
  const isSelected = (volume: CachedVolume): boolean =>
    selector === undefined || selectorFromObject(selector as LabelSelector).matches(volume.metadata.labels);
  return volumes
    .filter((volume) => volume.spec?.claimRef === undefined && (volume.status?.phase ?? "Available") === "Available")
    .filter((volume) => suits(volume) && isSelected(volume))
    .toSorted((a, b) => compareQuantities(capacityOf(a), capacityOf(b)))[0];
}
