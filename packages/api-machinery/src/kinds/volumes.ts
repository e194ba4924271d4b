import type { ObjectMeta } from "../objects/object.ts";
import type { LabelSelector } from "../selectors/label-selector.ts";

/** A key of a ConfigMap or Secret as a file (core/v1 KeyToPath). */
export interface KeyToPath {
  key: string;
  path: string;
  mode?: number;
}

/** A field of the Pod, or a resource of a container, as a file (core/v1 DownwardAPIVolumeFile). */
export interface DownwardApiFile {
  path: string;
  fieldRef?: { fieldPath: string; apiVersion?: string };
  resourceFieldRef?: { resource: string; containerName?: string; divisor?: string };
  mode?: number;
}

/** One of the sources that a projected volume lays into one folder (core/v1 VolumeProjection). */
export interface VolumeProjection {
  configMap?: { name?: string; items?: KeyToPath[]; optional?: boolean };
  secret?: { name?: string; items?: KeyToPath[]; optional?: boolean };
  downwardAPI?: { items?: DownwardApiFile[] };
  serviceAccountToken?: { path: string; audience?: string; expirationSeconds?: number };
}

/** What a claim asks for (core/v1 PersistentVolumeClaimSpec). */
export interface PersistentVolumeClaimSpec {
  accessModes?: string[];
  storageClassName?: string;
  volumeName?: string;
  volumeMode?: string;
  resources?: { requests?: Record<string, string>; limits?: Record<string, string> };
  selector?: LabelSelector;
  /** What the volume is filled from: a VolumeSnapshot or another claim. */
  dataSource?: { apiGroup?: string; kind: string; name: string };
  dataSourceRef?: { apiGroup?: string; kind: string; name: string; namespace?: string };
}

/** Where files of a Pod come from (core/v1 Volume). Sources that are not typed (`iscsi`, `rbd` ...) are fields by their names. */
export interface Volume {
  name: string;
  emptyDir?: { medium?: string; sizeLimit?: string };
  hostPath?: { path: string; type?: string };
  configMap?: { name?: string; items?: KeyToPath[]; defaultMode?: number; optional?: boolean };
  secret?: { secretName?: string; items?: KeyToPath[]; defaultMode?: number; optional?: boolean };
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  projected?: { sources?: VolumeProjection[]; defaultMode?: number };
  downwardAPI?: { items?: DownwardApiFile[]; defaultMode?: number };
  /** A claim that is made for the Pod and goes with it. */
  ephemeral?: { volumeClaimTemplate?: { metadata?: ObjectMeta; spec: PersistentVolumeClaimSpec } };
  csi?: {
    driver: string;
    readOnly?: boolean;
    fsType?: string;
    volumeAttributes?: Record<string, string>;
    nodePublishSecretRef?: { name?: string };
  };
  nfs?: { server: string; path: string; readOnly?: boolean };
  image?: { reference?: string; pullPolicy?: "Always" | "IfNotPresent" | "Never" };
}
