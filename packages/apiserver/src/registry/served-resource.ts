import type { DeepReadonly, KubernetesObject, PrinterColumn, ScaleSubresource, Schema, Scope, StatusCause } from "@keelson/api-machinery";

/** A kind as one version of it is served: what every endpoint, discovery, OpenAPI, tables and patches need to know of it. */
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
  /** Verbs of discovery. Kinds that are not stored (reviews) have `create` only. */
  readonly verbs: readonly Verb[];
  /** `apiVersion` of what is stored; differs from `group/version` for a served version that is not the storage version. */
  readonly storageApiVersion: string;
  readonly schema: Schema;
  /** Built-in kinds validate by code besides the schema and are patched strategically; custom ones are not. */
  readonly origin: "builtin" | "custom";
  readonly hasStatus: boolean;
  readonly scale?: ScaleSubresource;
  /** Columns of `kubectl get` besides the name. Where `cells` is there, it makes the cells. */
  readonly columns: readonly PrinterColumn[];
  /** Cells of a row where JSONPath cannot say it (pods' READY). One for every column. */
  readonly cells?: (object: DeepReadonly<KubernetesObject>, now: number) => readonly (string | number)[];
  readonly strategy: Strategy;
  /** Fields besides `metadata.name` and `metadata.namespace` that a field selector may name, and how to read them. */
  readonly selectableFields: Readonly<Record<string, (object: DeepReadonly<KubernetesObject>) => string>>;
}

/** A verb of discovery and RBAC. */
export type Verb = "create" | "delete" | "deletecollection" | "get" | "list" | "patch" | "update" | "watch";

/**
 * What a kind does besides the common (the RESTStorage strategies of Kubernetes). Each function may be left out. `object`
 * is the request's own copy and may be changed; `old` is what is stored.
 */
export interface Strategy {
  /** Fills in what create adds (`status.phase` of a Namespace) and drops what a client may not set. */
  prepareForCreate?(object: KubernetesObject): void;
  prepareForUpdate?(object: KubernetesObject, old: DeepReadonly<KubernetesObject>): void;
  /** What is wrong; empty when nothing is. After the schema's own checks. */
  validate?(object: DeepReadonly<KubernetesObject>): readonly StatusCause[];
  validateUpdate?(object: DeepReadonly<KubernetesObject>, old: DeepReadonly<KubernetesObject>): readonly StatusCause[];
  /** Runs instead of storing it: reviews, tokens. Answers the object. */
  evaluate?(object: KubernetesObject, request: { readonly user: UserInfo; readonly namespace: string; readonly name: string }): Promise<KubernetesObject>;
  /** Kinds without `metadata.generation` (ConfigMap, Secret, Event, Namespace ...) say false. Default true. */
  readonly hasGeneration?: boolean;
  /** Grace in seconds of a delete that names none. Default 0: at once. */
  readonly defaultGraceSeconds?: number;
}

/** Who asks (authentication/v1 UserInfo). */
export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** The kinds that are served now. CRDs come and go: readers ask each time and `onChange` tells of changes. */
export interface ResourceTable {
  get(group: string, version: string, plural: string): ServedResource | undefined;
  byKind(group: string, version: string, kind: string): ServedResource | undefined;
  /** In the order of discovery. */
  list(): readonly ServedResource[];
  onChange(listener: () => void): () => void;
}
