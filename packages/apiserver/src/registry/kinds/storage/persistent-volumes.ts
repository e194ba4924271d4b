import { draft, jsonEquals, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type {
  PersistentVolumeClaimObject,
  PersistentVolumeClaimSpec,
  PersistentVolumeObject,
} from "@keelson/api-machinery/kinds";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import {
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import type { Store } from "../../../storage/store.ts";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { accessModes, claimSpecCauses } from "./claim-validation.ts";
import * as check from "../../field-checks.ts";
import { mapAt, objectAt, setField, textAt } from "../../object-fields.ts";
import type { Draft, DraftObject, ReceivedObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import { nodeSelectorCauses } from "../pod/affinity-validation.ts";
import { sourceDefaults } from "../pod/defaults.ts";
import { defaultStorageClass, storageClasses } from "./storage-classes.ts";

type Claim = ReceivedObject<PersistentVolumeClaimObject>;
type Volume = ReceivedObject<PersistentVolumeObject>;

/** PersistentVolumes, PersistentVolumeClaims and StorageClasses. Claims without a class get the default class in the store. */
export function storageKinds(store: Pick<Store, "list">): readonly ServedResource[] {
  const { strategy } = persistentVolumeClaims;
  const prepareForCreate = (claim: DraftObject<PersistentVolumeClaimObject>): void => {
    strategy.prepareForCreate?.(claim);
    const spec = claim.spec;
    const className = spec?.storageClassName === undefined ? defaultStorageClass(store) : undefined;
    if (spec !== undefined && className !== undefined) spec.storageClassName = className;
  };
  return [persistentVolumes, { ...persistentVolumeClaims, strategy: { ...strategy, prepareForCreate } }, storageClasses];
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
      isBound ? (claim.status?.capacity?.storage ?? "") : "",
      isBound ? modesText(claim.status?.accessModes ?? []) : "",
      claim.spec?.storageClassName ?? "",
      claim.spec?.volumeAttributesClassName || "<unset>",
      age(claim.metadata.creationTimestamp, now),
      claim.spec?.volumeMode || "<unset>",
    ];
  },
  strategy: {
    hasGeneration: false,
    default: (claim) => defaultClaimSpec(claim.spec),
    prepareForCreate: (claim) => {
      setField(claim, "status", { phase: "Pending" });
      addFinalizer(claim, claimFinalizer);
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

function claimUpdateCauses(claim: Claim, old: Claim): StatusCause[] {
  const isBound = old.status?.phase === "Bound";
  const causes: StatusCause[] = [];
  if (!jsonEquals(fixedClaim(claim, old, isBound), fixedClaim(old, old, isBound))) {
    const detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    causes.push(forbiddenCause("spec", detail));
  }
  const before = old.spec?.resources?.requests?.storage;
  const now = claim.spec?.resources?.requests?.storage;
  if (isBound && isQuantity(before) && isQuantity(now) && compareQuantities(now, before) < 0) {
    const detail = "field can not be less than status.capacity";
    causes.push(forbiddenCause("spec.resources.requests.storage", detail));
  }
  return causes;
}

/** The spec without mutable fields: the volume name until it is set, and the size once bound. */
function fixedClaim(claim: Claim, old: Claim, isBound: boolean): object {
  const spec: Draft<PersistentVolumeClaimSpec> = structuredClone(draft(claim.spec ?? {}));
  if ((old.spec?.volumeName ?? "") === "") delete spec.volumeName;
  if (old.spec?.storageClassName === undefined) delete spec.storageClassName;
  if (isBound) {
    delete spec.volumeAttributesClassName;
    const requests = spec.resources?.requests;
    if (requests !== undefined) delete requests.storage;
  }
  return spec;
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
      setField(volume, "status", { phase: "Pending" });
      addFinalizer(volume, volumeFinalizer);
    },
    validate: volumeCauses,
    validateUpdate: (volume, old) => {
      const source = (object: Volume): JsonObject => {
        const spec = draft(object.spec ?? {}) as JsonObject;
        for (const field of notSource) delete spec[field];
        return spec;
      };
      const causes: StatusCause[] = [];
      if (!jsonEquals(source(volume), source(old))) {
        causes.push(forbiddenCause("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"));
      }
      if ((volume.spec?.volumeMode ?? "") !== (old.spec?.volumeMode ?? "")) {
        causes.push(invalidCause("spec.volumeMode", volume.spec?.volumeMode ?? "", "field is immutable"));
      }
      return causes;
    },
  },
});

/** Fields of a volume's spec other than its source. */
const notSource = [
  "accessModes",
  "capacity",
  "claimRef",
  "mountOptions",
  "nodeAffinity",
  "persistentVolumeReclaimPolicy",
  "storageClassName",
  "volumeAttributesClassName",
  "volumeMode",
];

function volumeCauses(volume: Volume): StatusCause[] {
  const spec = volume.spec;
  const modes = spec?.accessModes ?? [];
  const causes = modes.length === 0 ? [requiredCause("spec.accessModes")] : [];
  for (const mode of modes) causes.push(...check.oneOf("spec.accessModes", mode, accessModes));
  const size = spec?.capacity?.storage;
  const resources = Object.keys(spec?.capacity ?? {});
  if (resources.length === 0) causes.push(requiredCause("spec.capacity"));
  if (resources.length !== 1 || resources[0] !== "storage") {
    causes.push(notSupportedCause("spec.capacity", spec?.capacity ?? {}, ["storage"]));
  }
  if (isQuantity(size) && compareQuantities(size, 0) <= 0)
    causes.push(invalidCause("spec.capacity[storage]", size, "must be greater than zero"));
  if (modes.includes("ReadWriteOncePod") && modes.length > 1) {
    causes.push(forbiddenCause("spec.accessModes", "may not use ReadWriteOncePod with other access modes"));
  }
  const policies = ["Delete", "Recycle", "Retain"];
  causes.push(...check.oneOf("spec.persistentVolumeReclaimPolicy", spec?.persistentVolumeReclaimPolicy, policies));
  causes.push(...check.oneOf("spec.volumeMode", spec?.volumeMode, ["Block", "Filesystem"]));
  causes.push(...check.dnsSubdomain("spec.storageClassName", spec?.storageClassName));
  const [source, ...more] = Object.keys(mapAt(spec)).filter((field) => !notSource.includes(field));
  if (source === undefined) causes.push(requiredCause("spec", "must specify a volume type"));
  causes.push(...more.map((field) => forbiddenCause(`spec.${field}`, "may not specify more than 1 volume type")));
  if (source === "hostPath" || source === "local") {
    causes.push(...check.nonEmpty(`spec.${source}.path`, textAt(spec, source, "path")));
  }
  const wanted = spec?.nodeAffinity?.required;
  if (wanted !== undefined) causes.push(...nodeSelectorCauses(wanted, "spec.nodeAffinity.required"));
  else if (source === "local") causes.push(requiredCause("spec.nodeAffinity", "Local volume requires node affinity"));
  return causes;
}
