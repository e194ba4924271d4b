import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { EndpointSliceObject, ObjectReference, PersistentVolumeClaimObject } from "@keelson/api-machinery";

/*
 * Kinds that only the controllers of this package write, and fields of shared kinds that only they read.
 */

/** apps/v1 ControllerRevision: one version of a StatefulSet's template. */
export interface ControllerRevisionObject extends KubernetesObject {
  data: unknown;
  revision: number;
}

/** core/v1 PersistentVolume. */
export interface PersistentVolumeObject extends KubernetesObject {
  spec: {
    capacity?: Record<string, string>;
    accessModes?: string[];
    storageClassName?: string;
    volumeMode?: string;
    persistentVolumeReclaimPolicy?: "Delete" | "Retain" | "Recycle";
    claimRef?: ObjectReference;
    hostPath?: { path: string; type?: string };
    local?: { path: string };
    nodeAffinity?: unknown;
  };
  status?: { phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed"; message?: string; reason?: string };
}

/** storage.k8s.io/v1 StorageClass. */
export interface StorageClassObject extends KubernetesObject {
  provisioner: string;
  reclaimPolicy?: "Delete" | "Retain";
  volumeBindingMode?: "Immediate" | "WaitForFirstConsumer";
  allowVolumeExpansion?: boolean;
}

/** core/v1 Endpoints. */
export interface EndpointsObject extends KubernetesObject {
  subsets?: {
    addresses?: EndpointAddress[];
    notReadyAddresses?: EndpointAddress[];
    ports?: { name?: string; port: number; protocol?: string; appProtocol?: string }[];
  }[];
}

/** One address of {@link EndpointsObject}. */
export interface EndpointAddress {
  ip: string;
  hostname?: string;
  nodeName?: string;
  targetRef?: ObjectReference;
}

/** The resource of {@link ControllerRevisionObject}. */
export const ControllerRevision: ResourceType<ControllerRevisionObject> = {
  group: "apps",
  version: "v1",
  kind: "ControllerRevision",
  plural: "controllerrevisions",
  scope: "Namespaced",
};
/** The resource of {@link PersistentVolumeObject}. */
export const PersistentVolume: ResourceType<PersistentVolumeObject> = {
  group: "",
  version: "v1",
  kind: "PersistentVolume",
  plural: "persistentvolumes",
  scope: "Cluster",
};
/** The resource of {@link StorageClassObject}. */
export const StorageClass: ResourceType<StorageClassObject> = {
  group: "storage.k8s.io",
  version: "v1",
  kind: "StorageClass",
  plural: "storageclasses",
  scope: "Cluster",
};
/** The resource of {@link EndpointsObject}. */
export const Endpoints: ResourceType<EndpointsObject> = {
  group: "",
  version: "v1",
  kind: "Endpoints",
  plural: "endpoints",
  scope: "Namespaced",
};

/** A claim as the volume controller reads it. */
export type Claim = DeepReadonly<PersistentVolumeClaimObject>;
/** A slice as the endpoint controller writes it. */
export type Slice = DeepReadonly<EndpointSliceObject>;
