import { PersistentVolume } from "@keelson/api-machinery/kinds";
import type { Claim } from "../workload/cached-objects.ts";
import { eventWrite, type Write } from "../workload/write.ts";
import { directoryProvisioner, provisionedByAnnotation, volumeFinalizer } from "./claim-decision.ts";
import type { CachedVolume } from "./volume-matching.ts";

/** The writes for a volume, and what to remove before them. */
export interface VolumeDecision {
  readonly writes: readonly Write[];
  /** The directory to remove recursively before the writes. */
  readonly removes?: string;
}

/** Decides the next step of a volume. `claim` is the claim that it references, if that exists. */
export function decideVolume(volume: CachedVolume, claim: Claim | undefined): VolumeDecision {
  const reference = volume.spec?.claimRef;
  const isClaimed = claim !== undefined && (reference?.uid === undefined || reference.uid === claim.metadata.uid);
  const finalizers = volume.metadata.finalizers ?? [];
  if (volume.metadata.deletionTimestamp !== undefined) {
    if (isClaimed || !finalizers.includes(volumeFinalizer)) return { writes: [] };
    const body = { metadata: { finalizers: finalizers.filter((one) => one !== volumeFinalizer) } };
    return { writes: [{ kind: "patch", type: PersistentVolume, object: volume, body }] };
  }
  if (reference === undefined) return { writes: phase(volume, "Available") };
  if (reference.uid === undefined || reference.uid === "") return { writes: phase(volume, "Available") };
  if (isClaimed)
    return { writes: claim.spec?.volumeName === volume.metadata.name ? phase(volume, "Bound") : phase(volume, "Available") };
  if (volume.spec?.persistentVolumeReclaimPolicy !== "Delete") return { writes: phase(volume, "Released") };
  const isOurs = volume.metadata.annotations?.[provisionedByAnnotation] === directoryProvisioner;
  const path = volume.spec?.hostPath?.path;
  if (!isOurs || path === undefined) return { writes: phase(volume, "Released") };
  // Files are removed before the object that records their path, so that a failure can still be reported on it.
  return {
    writes: [...phase(volume, "Released"), { kind: "delete", type: PersistentVolume, object: volume }],
    removes: path,
  };
}

/** Reports that the files of a volume could not be removed. */
export function volumeFailed(volume: CachedVolume, message: string): readonly Write[] {
  return [...phase(volume, "Failed", message), eventWrite(volume, "Warning", "VolumeFailedDelete", message)];
}

function phase(volume: CachedVolume, phase: string, message?: string): readonly Write[] {
  if (volume.status?.phase === phase && volume.status.message === message) return [];
  const body = { status: { phase, message: message ?? null } };
  return [{ kind: "patch", type: PersistentVolume, object: volume, body, subresource: "status" }];
}
