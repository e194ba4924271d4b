import type { PersistentVolumeObject } from "@keelson/api-machinery/kinds";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Claim } from "../workload/resources.ts";
import type { Seen } from "../workload/write.ts";

/** A volume as it is read. */
export type SeenVolume = Seen<PersistentVolumeObject>;

/** What a claim asks for. */
export function requestOf(claim: Claim): string {
  const request = claim.spec?.resources?.requests?.["storage"];
  return isQuantity(request) ? request : "0";
}

/** How much a volume holds. */
export function capacityOf({ spec }: SeenVolume): string {
  const capacity = spec?.capacity?.["storage"];
  return isQuantity(capacity) ? capacity : "0";
}

/** Whether a volume is kept for, or bound to, this very claim. */
export function isFor({ spec }: SeenVolume, { metadata }: Claim): boolean {
  const { namespace, name, uid } = spec?.claimRef ?? {};
  return (
    name === metadata.name && namespace === metadata.namespace && (uid === undefined || uid === "" || uid === metadata.uid)
  );
}

/** The volume that a claim without one gets of those that are there: one kept for it, else the smallest that suffices. */
export function matchVolume(claim: Claim, volumes: readonly SeenVolume[]): SeenVolume | undefined {
  const selector = claim.spec?.selector;
  const suits = (volume: SeenVolume): boolean =>
    volume.metadata.deletionTimestamp === undefined &&
    (volume.spec?.storageClassName ?? "") === (claim.spec?.storageClassName ?? "") &&
    (volume.spec?.volumeMode ?? "Filesystem") === (claim.spec?.volumeMode ?? "Filesystem") &&
    (claim.spec?.accessModes ?? []).every((mode) => volume.spec?.accessModes?.includes(mode)) &&
    compareQuantities(capacityOf(volume), requestOf(claim)) >= 0;
  const kept = volumes.find((volume) => volume.spec?.claimRef !== undefined && isFor(volume, claim) && suits(volume));
  if (kept !== undefined) return kept;
  const isSelected = (volume: SeenVolume): boolean =>
    selector === undefined || selectorFromObject(selector as LabelSelector).matches(volume.metadata.labels);
  return volumes
    .filter((volume) => volume.spec?.claimRef === undefined && (volume.status?.phase ?? "Available") === "Available")
    .filter((volume) => suits(volume) && isSelected(volume))
    .toSorted((a, b) => compareQuantities(capacityOf(a), capacityOf(b)))[0];
}
