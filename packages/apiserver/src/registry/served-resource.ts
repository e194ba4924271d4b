import type { Causes } from "./causes.ts";
import type { DeepReadonly, KubernetesObject, Scope } from "@keelson/api-machinery";
import type { PrinterColumn, ScaleSubresource, Schema } from "@keelson/api-machinery/schema";
import type { PruningMark } from "./crd/pruning-mark.ts";
import type { DraftObject, ReceivedObject } from "./received.ts";

/** One served version of a kind: what endpoints, discovery, OpenAPI, tables and patches need to know. */
export interface ServedResource {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly scope: Scope;
  /** Discovery verbs. Kinds that are not stored (reviews) have `create` only. */
  readonly verbs: readonly Verb[];
  /** `apiVersion` of stored objects; differs from `group/version` unless this is the storage version. */
  readonly storageApiVersion: string;
  readonly schema: Schema;
  /** Built-in kinds are validated in code as well as by schema, and support strategic merge patches; custom kinds do not. */
  readonly origin: "builtin" | "custom";
  readonly hasStatus: boolean;
  readonly scale?: ScaleSubresource;
  /** Columns of `kubectl get` after the name. `cells`, if set, computes the cells. */
  readonly columns: readonly PrinterColumn[];
  /** Cells of a row that JSONPath cannot express (READY of Pods), one per column. */
  readonly cells?: (object: DeepReadonly<KubernetesObject>, now: number) => readonly (string | number | boolean)[];
  /** Conditions of a Table row (meta/v1 TableRowCondition), such as completed Pods. Default: none. */
  readonly rowConditions?: (object: DeepReadonly<KubernetesObject>) => readonly unknown[];
  readonly strategy: Strategy;
  /** Fields that field selectors support in addition to `metadata.name` and `metadata.namespace`, and how to read them. */
  readonly selectableFields: Readonly<Record<string, (object: DeepReadonly<KubernetesObject>) => string>>;
  /**
   * Computes the objects of a kind that is not stored, of one namespace or, for `""`, of all. Such a kind has the verbs `get` and `list`
   * only.
   */
  readonly provide?: (namespace: string) => Promise<readonly KubernetesObject[]>;
  /** Converts custom objects to another version of their kind by the webhook of their CRD. Absent: conversion strategy `None`. */
  readonly convertByWebhook?: ConvertByWebhook;
  /** Custom kinds: which objects to prune when they are read, because a field may have been removed from the schema. Default: none. */
  readonly pruning?: PruningMark;
  /** Sent as a warning with every response of a deprecated version. */
  readonly deprecationWarning?: string;
  /** Subresources other than `status` and `scale`: `finalize`, `token`, `log`. */
  readonly subresources?: readonly Subresource[];
  /**
   * Converts between this version and the stored one if more than `apiVersion` differs (events.k8s.io Events are stored as core
   * Events). The storage key then has the group of `storageApiVersion`. Each function returns a new object with the other
   * `apiVersion` and leaves its argument unchanged.
   */
  readonly conversion?: {
    fromStorage(object: DeepReadonly<KubernetesObject>): KubernetesObject;
    toStorage(object: DeepReadonly<KubernetesObject>): KubernetesObject;
  };
}

/**
 * Converts custom objects of one kind to the version `apiVersion`, in their order. Objects that have that version already are returned as
 * they are. Rejects with a `StatusError` without a reason (500) if the webhook fails.
 */
export type ConvertByWebhook = (
  objects: readonly DeepReadonly<KubernetesObject>[],
  apiVersion: string,
) => Promise<readonly DeepReadonly<KubernetesObject>[]>;

/** A subresource specific to some kinds. */
export interface Subresource {
  /** As in the path: `finalize`. */
  readonly name: string;
  /** The kind of request and response. */
  readonly kind: string;
  /** Group and version of that kind if they differ from the resource's: `authentication.k8s.io` and `v1` for `token`. */
  readonly group?: string;
  readonly version?: string;
  readonly schema?: Schema;
  readonly verbs: readonly Verb[];
  /** Whether an update or patch may change the object's status too. Default false. */
  readonly changesStatus?: boolean;
  /** Whether the request is passed on to another server, with its method and its body unread. Default false. */
  readonly isProxy?: boolean;
  /** For update and patch: replaces the strategy's function, to select the parts of `object` that count. */
  prepareForUpdate?(object: KubernetesObject, old: DeepReadonly<KubernetesObject>): void;
  /** For update and patch: replaces the strategy's function. */
  validateUpdate?: Strategy["validateUpdate"];
  /** For create: responds without storing. `request.name` is the parent object. */
  evaluate?: Strategy["evaluate"];
}

/** A verb of discovery and RBAC. */
export type Verb = "create" | "delete" | "deletecollection" | "get" | "list" | "patch" | "update" | "watch";

/**
 * The kind-specific behaviour (a RESTStorage strategy in Kubernetes). All functions are optional. `object`
 * is the request's own mutable copy; `old` is the stored object. `T` is the kind's type.
 */
export interface Strategy<T extends KubernetesObject = KubernetesObject> {
  /**
   * Sets the defaults of a built-in kind in place, on create, update, patch and apply. Runs
   * before managedFields and validation, on an object whose fields have the types of the schema. It is idempotent.
   */
  default?(object: DraftObject<T>): void;
  /** Sets what create adds (`status.phase` of a Namespace) and drops what clients cannot set. `user` is the sender. */
  prepareForCreate?(object: DraftObject<T>, user?: UserInfo): void;
  /** Not called for updates through a subresource. */
  prepareForUpdate?(object: DraftObject<T>, old: ReceivedObject<T>): void;
  /**
   * Returns validation failures. Runs after schema validation. `old` is the object that an update replaces: parts unchanged from the
   * stored object need not be validated again.
   */
  validate?(object: ReceivedObject<T>, old?: ReceivedObject<T>): Causes;
  /** Returns warnings for the client of a create, or of an update of `old`. */
  warnings?(object: ReceivedObject<T>, old?: ReceivedObject<T>): readonly string[];
  /** The parts of these functions that concern the status, for writes through `status`. */
  readonly status?: Pick<Strategy<T>, "default" | "validate" | "prepareForUpdate">;
  /** Returns failures that apply to create only. Runs after `validate`. */
  validateCreate?(object: ReceivedObject<T>): Causes;
  validateUpdate?(object: ReceivedObject<T>, old: ReceivedObject<T>): Causes;
  /**
   * Runs when deletion begins, on the draft with the deletionTimestamp: sets `status.phase` (Namespace) or adds a
   * finalizer (CRD).
   */
  prepareForDelete?(object: DraftObject<T>): void;
  /** Whether something other than `metadata.finalizers` blocks removal: a Namespace's `spec.finalizers`. */
  isHeld?(object: ReceivedObject<T>): boolean;
  /** Responds instead of storing the object: reviews, tokens. */
  evaluate?(
    object: KubernetesObject,
    request: { readonly user: UserInfo; readonly namespace: string; readonly name: string },
  ): Promise<KubernetesObject>;
  /** Whether an update that leaves the spec unchanged raises the generation too. */
  raisesGeneration?(object: ReceivedObject<T>, old: ReceivedObject<T>): boolean;
  /** What a delete without a propagation policy does with dependents. Default: the garbage collector deletes them. */
  readonly defaultPropagation?: "Orphan";
  /** A warning for deletes without a propagation policy. */
  readonly propagationWarning?: string;
  /** False for kinds without `metadata.generation` (ConfigMap, Secret, Event, Namespace). Default true. */
  readonly hasGeneration?: boolean;
  /** The default grace period of a delete in seconds. Default 0: immediate. */
  readonly defaultGraceSeconds?: number;
}

/** The user of a request (authentication/v1 UserInfo). */
export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** The currently served kinds. CRDs are added and removed: look kinds up each time, or subscribe with `onChange`. */
export interface ResourceTable {
  get(group: string, version: string, plural: string): ServedResource | undefined;
  byKind(group: string, version: string, kind: string): ServedResource | undefined;
  /** In the order of discovery. */
  list(): readonly ServedResource[];
  onChange(listener: () => void): () => void;
}
