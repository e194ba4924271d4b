import { PersistentVolume } from "@keelson/api-machinery/kinds";
import type { Claim } from "../workload/resources.ts";
import { announce, type Seen, type Write } from "../workload/write.ts";
import { directoryProvisioner, provisionedByAnnotation, volumeFinalizer } from "./claim-decision.ts";
import type { SeenVolume } from "./volume-matching.ts";

/** What is to be done about a volume: writes, and before them the removal of what it held. */
export interface VolumeDecision {
  readonly writes: readonly Write[];
  /** The directory that is to be removed first, with everything in it. */
  readonly removes?: string;
}

/** The next step of a volume whose claim is `claim`; undefined where it has none (any more). */
export function decideVolume(volume: SeenVolume, claim: Claim | undefined): VolumeDecision {
  const reference = volume.spec?.claimRef;
  const isClaimed = claim !== undefined && (reference?.uid === undefined || reference.uid === claim.metadata.uid);
  const finalizers = volume.metadata.finalizers ?? [];
  if (volume.metadata.deletionTimestamp !== undefined) {
    if (isClaimed || !finalizers.includes(volumeFinalizer)) return { writes: [] };
    const body = { metadata: { finalizers: finalizers.filter((one) => one !== volumeFinalizer) } };
    return { writes: [{ kind: "patch", type: PersistentVolume, object: volume as Seen, body }] };
  }
  if (reference === undefined) return { writes: phase(volume, "Available") };
  if (reference.uid === undefined || reference.uid === "") return { writes: phase(volume, "Available") };
  if (isClaimed)
    return { writes: claim.spec?.volumeName === volume.metadata.name ? phase(volume, "Bound") : phase(volume, "Available") };
  if (volume.spec?.persistentVolumeReclaimPolicy !== "Delete") return { writes: phase(volume, "Released") };
  const isOurs = volume.metadata.annotations?.[provisionedByAnnotation] === directoryProvisioner;
  const path = volume.spec?.hostPath?.path;
  if (!isOurs || path === undefined) return { writes: phase(volume, "Released") };
  // First the files, then the object that says where they are: if the first fails, the second tells of it.
  return {
    writes: [...phase(volume, "Released"), { kind: "delete", type: PersistentVolume, object: volume as Seen }],
    removes: path,
  };
}

/** What is told when the files could not be removed. */
export function volumeFailed(volume: SeenVolume, message: string): readonly Write[] {
  return [...phase(volume, "Failed", message), announce(volume as Seen, "Warning", "VolumeFailedDelete", message)];
}

function phase(volume: SeenVolume, phase: string, message?: string): readonly Write[] {
  if (volume.status?.phase === phase && volume.status.message === message) return [];
  const body = { status: { phase, message: message ?? null } };
  return [{ kind: "patch", type: PersistentVolume, object: volume as Seen, body, subresource: "status" }];
}
