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

/** One source of a projected volume (core/v1 VolumeProjection). */
export interface VolumeProjection {
  configMap?: { name?: string; items?: KeyToPath[]; optional?: boolean };
  secret?: { name?: string; items?: KeyToPath[]; optional?: boolean };
  downwardAPI?: { items?: DownwardApiFile[] };
  serviceAccountToken?: { path: string; audience?: string; expirationSeconds?: number };
}

/** The desired state of a claim (core/v1 PersistentVolumeClaimSpec). */
export interface PersistentVolumeClaimSpec {
  accessModes?: string[];
  storageClassName?: string;
  volumeAttributesClassName?: string;
  volumeName?: string;
  volumeMode?: string;
  resources?: { requests?: Record<string, string>; limits?: Record<string, string> };
  selector?: LabelSelector;
  /** The VolumeSnapshot or claim that the volume is populated from. */
  dataSource?: { apiGroup?: string; kind: string; name: string };
  dataSourceRef?: { apiGroup?: string; kind: string; name: string; namespace?: string };
}

/**
 * A volume of a Pod (core/v1 Volume). Sources without a type here (`iscsi`, `rbd` and others) are fields named after them.
 */
export interface Volume {
  name: string;
  emptyDir?: { medium?: string; sizeLimit?: string };
  hostPath?: { path: string; type?: string };
  configMap?: { name?: string; items?: KeyToPath[]; defaultMode?: number; optional?: boolean };
  secret?: { secretName?: string; items?: KeyToPath[]; defaultMode?: number; optional?: boolean };
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  projected?: { sources?: VolumeProjection[]; defaultMode?: number };
  downwardAPI?: { items?: DownwardApiFile[]; defaultMode?: number };
  /** A claim that is created for the Pod and deleted with it. */
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
