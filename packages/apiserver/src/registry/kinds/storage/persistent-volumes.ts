import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type {
  PersistentVolumeClaimObject,
  PersistentVolumeClaimSpec,
  PersistentVolumeObject,
} from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import type { Store } from "../../../storage/store.ts";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { claimWarnings, volumeWarnings } from "./storage-warnings.ts";
import { claimUpdateCauses, volumeUpdateCauses } from "./update-validation.ts";
import { claimSpecCauses } from "./claim-validation.ts";
import { volumeCauses } from "./volume-validation.ts";
import { ensureMap, objectAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { Draft, DraftObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import { sourceDefaults } from "../pod/defaults.ts";
import { defaultStorageClass, storageClasses } from "./storage-classes.ts";

/**
 * PersistentVolumes, PersistentVolumeClaims and StorageClasses. Claims without a class get the default class in the store. `now` is in
 * milliseconds.
 */
export function storageKinds(store: Pick<Store, "list">, now: () => number): readonly ServedResource[] {
  const { strategy } = persistentVolumeClaims;
  const prepareForCreate = (claim: DraftObject<PersistentVolumeClaimObject>): void => {
    strategy.prepareForCreate?.(claim);
    const spec = claim.spec;
    const className = spec?.storageClassName === undefined ? defaultStorageClass(store) : undefined;
    if (spec !== undefined && className !== undefined) spec.storageClassName = className;
  };
  const status: ServedResource["strategy"]["status"] = {
    prepareForUpdate: (volume, old) => stampPhase(volume, old, now()),
  };
  const volumes = { ...persistentVolumes, strategy: { ...persistentVolumes.strategy, status } };
  return [volumes, { ...persistentVolumeClaims, strategy: { ...strategy, prepareForCreate } }, storageClasses];
}

const shortModes: Readonly<Record<string, string>> = {
  ReadWriteOnce: "RWO",
  ReadOnlyMany: "ROX",
  ReadWriteMany: "RWX",
  ReadWriteOncePod: "RWOP",
};

function modesText(modes: readonly unknown[]): string {
  return Object.keys(shortModes)
    .filter((mode) => modes.includes(mode))
    .map((mode) => shortModes[mode])
    .join(",");
}

/** Protection finalizers; the controller that serves the storage removes them. */
const claimFinalizer = "kubernetes.io/pvc-protection";
const volumeFinalizer = "kubernetes.io/pv-protection";

function addFinalizer(object: KubernetesObject, finalizer: string): void {
  const { finalizers = [] } = object.metadata;
  if (!finalizers.includes(finalizer)) object.metadata.finalizers = [...finalizers, finalizer];
}

const persistentVolumeClaims = builtinResource<PersistentVolumeClaimObject>({
  group: "",
  version: "v1",
  kind: "PersistentVolumeClaim",
  plural: "persistentvolumeclaims",
  shortNames: ["pvc"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Status", "Pending, Bound or Lost."),
    column("Volume", "The bound volume."),
    column("Capacity", "The size of the volume."),
    column("Access Modes", "How the volume can be mounted."),
    column("StorageClass", "The requested class of storage."),
    column("VolumeAttributesClass", "The class of the volume's mutable attributes."),
    ageColumn,
    column("VolumeMode", "Filesystem or Block.", { wide: true }),
  ],
  cells: (claim, now) => {
    const isBound = (claim.spec?.volumeName ?? "") !== "";
    const phase = claim.metadata.deletionTimestamp === undefined ? (claim.status?.phase ?? "") : "Terminating";
    return [
      phase,
      claim.spec?.volumeName ?? "",
      isBound ? (claim.status?.capacity?.storage ?? "0") : "",
      isBound ? modesText(claim.status?.accessModes ?? []) : "",
      claim.spec?.storageClassName ?? "",
      claim.spec?.volumeAttributesClassName || "<unset>",
      age(claim.metadata.creationTimestamp, now),
      claim.spec?.volumeMode || "<unset>",
    ];
  },
  strategy: {
    hasGeneration: false,
    warnings: (claim) => claimWarnings(claim.spec, "spec"),
    default: (claim) => defaultClaimSpec(claim.spec),
    prepareForCreate: (claim) => {
      if (claim.spec !== undefined) agreeOnDataSource(claim.spec);
      setField(claim, "status", { phase: "Pending" });
      addFinalizer(claim, claimFinalizer);
    },
    prepareForUpdate: (claim) => {
      if (claim.spec !== undefined) agreeOnDataSource(claim.spec);
    },
    validate: (claim) => claimSpecCauses(claim.spec, "spec"),
    validateUpdate: claimUpdateCauses,
  },
});

/** Sets the defaults of a claim's spec in place. */
export function defaultClaimSpec(spec: Draft<PersistentVolumeClaimSpec> | undefined): void {
  if (spec === undefined) return;
  spec.volumeMode ??= "Filesystem";
  // `resources` is always present, even if empty.
  spec.resources ??= {};
}

/**
 * `dataSource` and `dataSourceRef` are the same reference. A `dataSource` of another kind than claims and snapshots is dropped, as before
 * `dataSourceRef` existed (KEP-1495).
 */
function agreeOnDataSource(spec: Draft<PersistentVolumeClaimSpec>): void {
  const { dataSource: source, dataSourceRef: reference } = spec;
  if (reference === undefined && source !== undefined) {
    const group = source.apiGroup ?? "";
    const isClaim = group === "" && source.kind === "PersistentVolumeClaim";
    const isSnapshot = group === "snapshot.storage.k8s.io" && source.kind === "VolumeSnapshot";
    if (isClaim || isSnapshot) spec.dataSourceRef = { ...source };
    else delete spec.dataSource;
  } else if (reference !== undefined && source === undefined && !reference.namespace) {
    const { namespace: _, ...local } = reference;
    spec.dataSource = local;
  }
}

/** Records when the phase of a volume changed, unless the writer did. */
function stampPhase(volume: KubernetesObject, old: DeepReadonly<KubernetesObject>, nowMs: number): void {
  const [before, after] = [
    valueAt(old, "status", "lastPhaseTransitionTime"),
    valueAt(volume, "status", "lastPhaseTransitionTime"),
  ];
  const isChanged = textAt(volume, "status", "phase") !== textAt(old, "status", "phase");
  if (after !== undefined && after !== null && !(isChanged && after === before)) return;
  const time = isChanged ? formatTime(nowMs) : before;
  if (time !== undefined) setField(ensureMap(volume, "status"), "lastPhaseTransitionTime", time);
}

const persistentVolumes = builtinResource<PersistentVolumeObject>({
  group: "",
  version: "v1",
  kind: "PersistentVolume",
  plural: "persistentvolumes",
  shortNames: ["pv"],
  scope: "Cluster",
  hasStatus: true,
  columns: [
    column("Capacity", "The size of the volume."),
    column("Access Modes", "The access modes of the volume."),
    column("Reclaim Policy", "What happens to the volume when its claim is deleted."),
    column("Status", "Pending, Available, Bound, Released or Failed."),
    column("Claim", "The bound claim."),
    column("StorageClass", "The class of storage."),
    column("VolumeAttributesClass", "The class of the volume's mutable attributes."),
    column("Reason", "The reason of a failure."),
    ageColumn,
    column("VolumeMode", "Filesystem or Block.", { wide: true }),
  ],
  cells: (volume, now) => {
    const claim = volume.spec?.claimRef;
    return [
      volume.spec?.capacity?.storage ?? "",
      modesText(volume.spec?.accessModes ?? []),
      volume.spec?.persistentVolumeReclaimPolicy ?? "",
      volume.metadata.deletionTimestamp === undefined ? (volume.status?.phase ?? "") : "Terminating",
      claim === undefined ? "" : `${claim.namespace ?? ""}/${claim.name ?? ""}`,
      volume.spec?.storageClassName ?? "",
      volume.spec?.volumeAttributesClassName || "<unset>",
      volume.status?.reason ?? "",
      age(volume.metadata.creationTimestamp, now),
      volume.spec?.volumeMode || "<unset>",
    ];
  },
  strategy: {
    hasGeneration: false,
    warnings: volumeWarnings,
    default: (volume) => {
      const spec = volume.spec;
      if (spec === undefined) return;
      spec.persistentVolumeReclaimPolicy ??= "Retain";
      spec.volumeMode ??= "Filesystem";
      for (const [source, values] of Object.entries(sourceDefaults)) {
        const found = objectAt(spec, source);
        for (const [field, value] of Object.entries(values)) if (found !== undefined) found[field] ??= value;
      }
    },
    prepareForCreate: (volume) => {
      const { creationTimestamp: time } = volume.metadata;
      setField(volume, "status", { phase: "Pending", ...(time === undefined ? {} : { lastPhaseTransitionTime: time }) });
      addFinalizer(volume, volumeFinalizer);
    },
    validate: volumeCauses,
    validateUpdate: volumeUpdateCauses,
  },
});
