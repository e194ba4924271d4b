import { jsonEquals } from "@keelson/api-machinery";
import {
  type ObjectReference,
  PersistentVolume,
  PersistentVolumeClaim,
  type StorageClassObject,
} from "@keelson/api-machinery/kinds";
import { compareQuantities, formatQuantity } from "@keelson/api-machinery/quantity";
import { selectedNodeAnnotation } from "../scheduler/scheduler-decision.ts";
import type { Claim } from "../workload/cached-objects.ts";
import { eventWrite, type Decision, type Cached, type Write } from "../workload/write.ts";
import { capacityOf, isFor, matchVolume, requestOf, type CachedVolume } from "./volume-matching.ts";

/** Finalizer of a claim: keeps it while a Pod uses it. */
const claimFinalizer = "kubernetes.io/pvc-protection";
/** Finalizer of a volume: keeps it while a claim is bound to it. */
export const volumeFinalizer = "kubernetes.io/pv-protection";
/** Annotation of a volume: the provisioner that created it and must delete it. */
export const provisionedByAnnotation = "pv.kubernetes.io/provisioned-by";
/** The provisioner of directories below the data directory. */
export const directoryProvisioner = "keelson.dev/directory";
/** Annotation of the StorageClass for claims without a class. */
export const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class";

/** The input of {@link decideClaim}. */
export interface ObservedClaim {
  readonly claim: Claim;
  readonly volumes: readonly CachedVolume[];
  readonly classes: readonly Cached<StorageClassObject>[];
  /** Whether a Pod that has not terminated uses the claim. */
  readonly isUsed: boolean;
  /** The directory of the volume for a claim uid. */
  readonly pathOf: (uid: string) => string;
}

/** Decides the next step of a claim: protection, class, volume, binding, expansion. */
export function decideClaim(observed: ObservedClaim): Decision {
  const { claim, classes, isUsed } = observed;
  const finalizers = claim.metadata.finalizers ?? [];
  if (claim.metadata.deletionTimestamp !== undefined) {
    if (isUsed || !finalizers.includes(claimFinalizer)) return { writes: [] };
    return { writes: [patch(claim, { metadata: { finalizers: finalizers.filter((one) => one !== claimFinalizer) } })] };
  }
  if (!finalizers.includes(claimFinalizer)) {
    return { writes: [patch(claim, { metadata: { finalizers: [...finalizers, claimFinalizer] } })] };
  }
  if (claim.spec?.volumeName) return { writes: decideBound(observed, claim.spec.volumeName) };
  if (claim.spec?.storageClassName === undefined) {
    const name = defaultClassOf(classes);
    if (name !== undefined) return { writes: [patch(claim, { spec: { storageClassName: name } })] };
  }
  return { writes: decideUnbound(observed) };
}

function decideUnbound(observed: ObservedClaim): readonly Write[] {
  const { claim, volumes, classes } = observed;
  const found = matchVolume(claim, volumes);
  const storageClass = classes.find(({ metadata }) => metadata.name === claim.spec?.storageClassName);
  const waitsForConsumer =
    storageClass?.volumeBindingMode === "WaitForFirstConsumer" && !claim.metadata.annotations?.[selectedNodeAnnotation];
  if (waitsForConsumer && (found === undefined || found.spec?.claimRef === undefined)) {
    return pend(claim, "WaitForFirstConsumer", "waiting for first consumer to be created before binding");
  }
  if (found !== undefined) return bind(claim, found);
  if (claim.spec?.storageClassName === undefined || claim.spec.storageClassName === "") {
    return pend(claim, "FailedBinding", "no persistent volumes available for this claim and no storage class is set");
  }
  if (storageClass === undefined) {
    return pend(
      claim,
      "ProvisioningFailed",
      `storageclass.storage.k8s.io ${JSON.stringify(claim.spec.storageClassName)} not found`,
      "Warning",
    );
  }
  if (storageClass.provisioner !== directoryProvisioner) {
    const note = `Waiting for a volume to be created either by the external provisioner '${storageClass.provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.`;
    return pend(claim, "ExternalProvisioning", note);
  }
  if (claim.spec.volumeMode === "Block") {
    return pend(
      claim,
      "ProvisioningFailed",
      `volumeMode Block cannot be provisioned: ${directoryProvisioner} provides file systems only`,
      "Warning",
    );
  }
  return provision(observed, storageClass);
}

/** Provisions a volume, reserved for the claim from the start. Its name contains the claim's uid, so there is never a second one. */
function provision({ claim, pathOf }: ObservedClaim, storageClass: Cached<StorageClassObject>): readonly Write[] {
  const { uid = "" } = claim.metadata;
  const name = `pvc-${uid}`;
  const object = {
    metadata: {
      name,
      annotations: { [provisionedByAnnotation]: directoryProvisioner },
      finalizers: [volumeFinalizer],
    },
    spec: {
      capacity: { storage: formatQuantity(requestOf(claim)) },
      accessModes: claim.spec?.accessModes ?? ["ReadWriteOnce"],
      claimRef: referenceTo(claim),
      persistentVolumeReclaimPolicy: storageClass.reclaimPolicy ?? "Delete",
      storageClassName: storageClass.metadata.name,
      volumeMode: "Filesystem",
      hostPath: { path: pathOf(uid), type: "DirectoryOrCreate" },
    },
  };
  return [
    { kind: "create", type: PersistentVolume, object, mayExist: true },
    eventWrite(claim, "Normal", "ProvisioningSucceeded", `Successfully provisioned volume ${name}`),
  ];
}

function bind(claim: Claim, volume: CachedVolume): readonly Write[] {
  const writes: Write[] = [];
  if (volume.spec?.claimRef?.uid !== claim.metadata.uid) {
    const body = {
      spec: { claimRef: referenceTo(claim) },
      metadata: { annotations: { "pv.kubernetes.io/bound-by-controller": "yes" } },
    };
    writes.push({ kind: "patch", type: PersistentVolume, object: volume, body });
  }
  const annotations = { "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes" };
  writes.push(patch(claim, { metadata: { annotations }, spec: { volumeName: volume.metadata.name } }));
  return writes;
}

function decideBound({ claim, volumes, classes }: ObservedClaim, volumeName: string): readonly Write[] {
  const volume = volumes.find(({ metadata }) => metadata.name === volumeName);
  if (volume === undefined) {
    // A volume named in advance may still appear; a bound volume that disappeared is lost.
    if (claim.status?.phase !== "Bound") return pend(claim, "FailedBinding", `volume ${JSON.stringify(volumeName)} not found`);
    return [
      status(claim, { phase: "Lost" }),
      eventWrite(claim, "Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
    ];
  }
  if (volume.spec?.claimRef !== undefined && !isFor(volume, claim)) {
    return pend(claim, "FailedBinding", `volume ${JSON.stringify(volumeName)} already bound to a different claim.`, "Warning");
  }
  if (volume.spec?.claimRef?.uid !== claim.metadata.uid) {
    return [{ kind: "patch", type: PersistentVolume, object: volume, body: { spec: { claimRef: referenceTo(claim) } } }];
  }
  return [...grow(claim, volume, classes), ...statusOf(claim, volume)];
}

/** Expanding a directory only changes its recorded capacity. It never shrinks. */
function grow(claim: Claim, volume: CachedVolume, classes: readonly Cached<StorageClassObject>[]): readonly Write[] {
  const storage = requestOf(claim);
  const storageClass = classes.find(({ metadata }) => metadata.name === volume.spec?.storageClassName);
  const isOurs = volume.metadata.annotations?.[provisionedByAnnotation] === directoryProvisioner;
  if (!isOurs || compareQuantities(storage, capacityOf(volume)) <= 0) return [];
  if (storageClass?.allowVolumeExpansion !== true) {
    const note = `storage class ${JSON.stringify(volume.spec?.storageClassName ?? "")} does not allow volume expansion (allowVolumeExpansion)`;
    return [eventWrite(claim, "Warning", "VolumeResizeFailed", note)];
  }
  return [
    { kind: "patch", type: PersistentVolume, object: volume, body: { spec: { capacity: { storage } } } },
    eventWrite(claim, "Normal", "VolumeResizeSuccessful", `Resize volume succeeded: ${capacityOf(volume)} to ${storage}`),
  ];
}

function statusOf(claim: Claim, volume: CachedVolume): readonly Write[] {
  const wanted = { phase: "Bound", accessModes: volume.spec?.accessModes ?? [], capacity: { storage: capacityOf(volume) } };
  const { phase, accessModes = [], capacity } = claim.status ?? {};
  if (jsonEquals({ phase, accessModes, capacity }, wanted)) return [];
  return [status(claim, wanted)];
}

function pend(claim: Claim, reason: string, note: string, type: "Normal" | "Warning" = "Normal"): readonly Write[] {
  const writes: Write[] = claim.status?.phase === undefined ? [status(claim, { phase: "Pending" })] : [];
  return [...writes, eventWrite(claim, type, reason, note)];
}

function defaultClassOf(classes: readonly Cached<StorageClassObject>[]): string | undefined {
  return classes.find(({ metadata }) => metadata.annotations?.[defaultClassAnnotation] === "true")?.metadata.name;
}

function referenceTo({ metadata }: Claim): ObjectReference {
  const { name = "", namespace = "", uid = "" } = metadata;
  return { apiVersion: "v1", kind: "PersistentVolumeClaim", name, namespace, uid };
}

function patch(claim: Claim, body: Readonly<Record<string, unknown>>): Write {
  return { kind: "patch", type: PersistentVolumeClaim, object: claim, body };
}

function status(claim: Claim, body: Readonly<Record<string, unknown>>): Write {
  return { kind: "patch", type: PersistentVolumeClaim, object: claim, body: { status: body }, subresource: "status" };
}
