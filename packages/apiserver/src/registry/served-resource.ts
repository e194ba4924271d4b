import type { DeepReadonly, KubernetesObject, Scope } from "@keelson/api-machinery";
import type { PrinterColumn, ScaleSubresource, Schema } from "@keelson/api-machinery/schema";
import type { StatusCause } from "@keelson/api-machinery/validation";

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
  /** Conditions of a Table's row (meta/v1 TableRowCondition): that a Pod is done. Default: none. */
  readonly rowConditions?: (object: DeepReadonly<KubernetesObject>) => readonly unknown[];
  readonly strategy: Strategy;
  /** Fields besides `metadata.name` and `metadata.namespace` that a field selector may name, and how to read them. */
  readonly selectableFields: Readonly<Record<string, (object: DeepReadonly<KubernetesObject>) => string>>;
  /** Sent as a warning with every answer of a deprecated version. */
  readonly deprecationWarning?: string;
  /** Subresources besides `status` and `scale`: `finalize`, `token`, `log`. */
  readonly subresources?: readonly Subresource[];
  /**
   * Between this version's form and the stored one, where more than `apiVersion` differs (events.k8s.io Events are stored as core
   * ones). The group of `storageApiVersion` is then the group of the storage key. Each answers a new object with the other
   * `apiVersion`; what it is given is not changed.
   */
  readonly conversion?: {
    fromStorage(object: DeepReadonly<KubernetesObject>): KubernetesObject;
    toStorage(object: DeepReadonly<KubernetesObject>): KubernetesObject;
  };
}

/** A subresource that only some kinds have. */
export interface Subresource {
  /** As in the path: `finalize`. */
  readonly name: string;
  /** The kind that it takes and answers. */
  readonly kind: string;
  /** Group and version of that kind where they aren't the resource's own: `authentication.k8s.io` and `v1` of `token`. */
  readonly group?: string;
  readonly version?: string;
  readonly schema?: Schema;
  readonly verbs: readonly Verb[];
  /** For update and patch: says which parts of `object` count, in place of the strategy's function of that name. */
  prepareForUpdate?(object: KubernetesObject, old: DeepReadonly<KubernetesObject>): void;
  /** For update and patch: what is wrong, in place of the strategy's function of that name. */
  validateUpdate?: Strategy["validateUpdate"];
  /** For create: answers without storing. `request.name` is the object that the subresource belongs to. */
  evaluate?: Strategy["evaluate"];
}

/** A verb of discovery and RBAC. */
export type Verb = "create" | "delete" | "deletecollection" | "get" | "list" | "patch" | "update" | "watch";

/**
 * What a kind does besides the common (the RESTStorage strategies of Kubernetes). Each function may be left out. `object`
 * is the request's own copy and may be changed; `old` is what is stored.
 */
export interface Strategy {
  /**
   * Sets the defaults of a built-in kind, in place, in whatever a client wrote: on create, update, patch and what an apply makes. Runs
   * before managedFields and validation, on an object whose fields have the types of the schema. Running it twice changes nothing more.
   */
  default?(object: KubernetesObject): void;
  /** Fills in what create adds (`status.phase` of a Namespace) and drops what a client may not set. */
  prepareForCreate?(object: KubernetesObject): void;
  /** Not for updates through a subresource. */
  prepareForUpdate?(object: KubernetesObject, old: DeepReadonly<KubernetesObject>): void;
  /** What is wrong; empty when nothing is. After the schema's own checks. */
  validate?(object: DeepReadonly<KubernetesObject>): readonly StatusCause[];
  /** What of `default` and `validate` concerns the status: for a write through `status`, which leaves all else as it is stored. */
  readonly status?: Pick<Strategy, "default" | "validate">;
  /** What only creation forbids. After `validate`. */
  validateCreate?(object: DeepReadonly<KubernetesObject>): readonly StatusCause[];
  /** Whether `validate` alone tells what is required and absent, whatever the schema says of a built-in kind. Default false. */
  readonly tellsRequired?: boolean;
  validateUpdate?(object: DeepReadonly<KubernetesObject>, old: DeepReadonly<KubernetesObject>): readonly StatusCause[];
  /**
   * When deletion begins, on the draft that gets the deletionTimestamp: marks it (`status.phase` of a Namespace) or holds it by a
   * finalizer (CRDs).
   */
  prepareForDelete?(object: KubernetesObject): void;
  /** Whether something besides `metadata.finalizers` keeps a deleted object from going: a Namespace's `spec.finalizers`. */
  isHeld?(object: DeepReadonly<KubernetesObject>): boolean;
  /** Runs instead of storing it: reviews, tokens. Answers the object. */
  evaluate?(
    object: KubernetesObject,
    request: { readonly user: UserInfo; readonly namespace: string; readonly name: string },
  ): Promise<KubernetesObject>;
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
