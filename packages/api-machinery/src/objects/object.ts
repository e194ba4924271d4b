import type { DeepReadonly, JsonObject } from "./json.ts";

/** A reference to an owner (meta/v1 OwnerReference). */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  /** Marks the controller that manages this object; at most one reference has it. */
  controller?: boolean;
  /** Foreground deletion of the owner waits until this object is deleted. */
  blockOwnerDeletion?: boolean;
}

/** One manager's ownership of fields (meta/v1 ManagedFieldsEntry, KEP-555). */
export interface ManagedFieldsEntry {
  manager?: string;
  operation?: "Apply" | "Update";
  apiVersion?: string;
  /** RFC 3339, whole seconds. */
  time?: string;
  fieldsType?: "FieldsV1";
  fieldsV1?: JsonObject;
  /** The subresource that the fields were written through; `""` or absent for the object itself. */
  subresource?: string;
}

/** The metadata of every stored object (meta/v1 ObjectMeta). */
export interface ObjectMeta {
  name?: string;
  generateName?: string;
  namespace?: string;
  uid?: string;
  /** Opaque to users; a decimal number in practice. Compare with `compareResourceVersions`, never with `parseInt`. */
  resourceVersion?: string;
  generation?: number;
  /** RFC 3339, whole seconds. */
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  finalizers?: string[];
  managedFields?: ManagedFieldsEntry[];
  selfLink?: string;
}

/** The fields that every API object has. */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/**
 * An object as returned by clients and caches: read-only, with the metadata that the server sets on every object. It is
 * assignable to `DeepReadonly<T>`.
 */
export type Stored<T extends KubernetesObject = KubernetesObject> = DeepReadonly<T> & {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp: string;
  };
};

/** The metadata of a list (meta/v1 ListMeta). */
export interface ListMeta {
  resourceVersion?: string;
  continue?: string;
  remainingItemCount?: number;
}

/** A list of objects. Items of a typed list may lack `apiVersion` and `kind`, which kube-apiserver omits. */
export interface KubernetesList<T> {
  apiVersion: string;
  kind: string;
  metadata: ListMeta;
  items: T[];
}

/** Identifies an object within its kind. `namespace` is absent for cluster-scoped objects. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/**
 * One event of a watch (meta/v1 WatchEvent). A BOOKMARK carries only `metadata.resourceVersion`; an ERROR carries a Status.
 */
export interface WatchEvent<T = KubernetesObject> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T;
}

/** A standard condition (meta/v1 Condition). */
export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  observedGeneration?: number;
  /** RFC 3339. Changes only when `status` does. */
  lastTransitionTime: string;
  /** CamelCase, not empty. */
  reason: string;
  message: string;
}

/**
 * A condition of a built-in kind; only `type` and `status` are guaranteed. Nodes have `lastHeartbeatTime`, Pods and Jobs
 * `lastProbeTime`, Deployments `lastUpdateTime`.
 */
export interface BuiltInCondition extends Partial<Omit<Condition, "type" | "status">> {
  type: string;
  status: Condition["status"];
  lastHeartbeatTime?: string;
  lastProbeTime?: string;
  lastUpdateTime?: string;
}
