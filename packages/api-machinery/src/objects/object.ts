import type { DeepReadonly, JsonObject } from "./json.ts";

/** Which kind of object an owner is, and which one (meta/v1 OwnerReference). */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  /** Set on at most one reference: the controller that manages this object. */
  controller?: boolean;
  /** Foreground deletion of the owner waits for this object. */
  blockOwnerDeletion?: boolean;
}

/** Who owns which fields of an object (meta/v1 ManagedFieldsEntry, KEP-555). */
export interface ManagedFieldsEntry {
  manager?: string;
  operation?: "Apply" | "Update";
  apiVersion?: string;
  /** RFC 3339, whole seconds. */
  time?: string;
  fieldsType?: "FieldsV1";
  fieldsV1?: JsonObject;
  /** `""` or absent for the object itself, else the subresource through which the fields were written. */
  subresource?: string;
}

/** Metadata of every stored object (meta/v1 ObjectMeta). */
export interface ObjectMeta {
  name?: string;
  generateName?: string;
  namespace?: string;
  uid?: string;
  /** Opaque to users; a decimal number here. Compare with `compareResourceVersions`, never with `parseInt`. */
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

/** What every API object has. */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/**
 * An object as clients and caches answer it: read-only, and with the metadata that the server gives to every object, whatever `T` leaves
 * open. It goes wherever a `DeepReadonly<T>` is wanted.
 */
export type Stored<T extends KubernetesObject = KubernetesObject> = DeepReadonly<T> & {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp: string;
  };
};

/** Metadata of a list (meta/v1 ListMeta). */
export interface ListMeta {
  resourceVersion?: string;
  continue?: string;
  remainingItemCount?: number;
}

/** A list of objects. Items of a typed list may lack `apiVersion` and `kind`, as kube-apiserver leaves them out. */
export interface KubernetesList<T> {
  apiVersion: string;
  kind: string;
  metadata: ListMeta;
  items: T[];
}

/** Names an object within its kind. `namespace` is absent for cluster-scoped objects. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** One line of a watch (meta/v1 WatchEvent). A BOOKMARK has only `metadata.resourceVersion`, an ERROR a Status. */
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
  /** CamelCase, at least one character. */
  reason: string;
  message: string;
}

/**
 * A condition of a built-in kind, of which only type and status are sure. Nodes have `lastHeartbeatTime`, Pods and Jobs
 * `lastProbeTime`, Deployments `lastUpdateTime`.
 */
export interface BuiltInCondition extends Partial<Omit<Condition, "type" | "status">> {
  type: string;
  status: Condition["status"];
  lastHeartbeatTime?: string;
  lastProbeTime?: string;
  lastUpdateTime?: string;
}
