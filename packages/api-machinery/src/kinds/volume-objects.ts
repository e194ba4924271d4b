import type { ObjectReference } from "./core-objects.ts";
import type { BuiltInCondition, KubernetesObject } from "../objects/object.ts";
import type { NodeSelectorTerm } from "./scheduling.ts";
import type { PersistentVolumeClaimSpec } from "./volumes.ts";

/*
 * The storage kinds, with the fields that controllers use. Fields that are not typed here still exist at run time: these
 * types are not schemas, and declaration merging can extend them.
 */

/** core/v1 PersistentVolumeClaim. */
export interface PersistentVolumeClaimObject extends KubernetesObject {
  spec?: PersistentVolumeClaimSpec;
  status?: {
    phase?: "Pending" | "Bound" | "Lost";
    capacity?: Record<string, string>;
    accessModes?: string[];
    conditions?: BuiltInCondition[];
  };
}

/** core/v1 PersistentVolume. Its source (`hostPath`, `local`, `csi` and others) is a field of the spec named after it. */
export interface PersistentVolumeObject extends KubernetesObject {
  spec?: {
    capacity?: Record<string, string>;
    accessModes?: string[];
    claimRef?: ObjectReference;
    persistentVolumeReclaimPolicy?: "Retain" | "Delete" | "Recycle";
    storageClassName?: string;
    volumeAttributesClassName?: string;
    volumeMode?: "Filesystem" | "Block";
    hostPath?: { path: string; type?: string };
    local?: { path: string; fsType?: string };
    nfs?: { server: string; path: string; readOnly?: boolean };
    csi?: {
      driver: string;
      volumeHandle: string;
      fsType?: string;
      readOnly?: boolean;
      volumeAttributes?: Record<string, string>;
    };
    mountOptions?: string[];
    nodeAffinity?: { required?: { nodeSelectorTerms: NodeSelectorTerm[] } };
  };
  status?: { phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed"; message?: string; reason?: string };
}

/** storage.k8s.io/v1 StorageClass. */
export interface StorageClassObject extends KubernetesObject {
  provisioner: string;
  parameters?: Record<string, string>;
  reclaimPolicy?: "Retain" | "Delete";
  volumeBindingMode?: "Immediate" | "WaitForFirstConsumer";
  allowVolumeExpansion?: boolean;
  mountOptions?: string[];
  allowedTopologies?: { matchLabelExpressions?: { key: string; values: string[] }[] }[];
}
