import type { DeepPartial, DeepReadonly, KubernetesObject, ObjectKey, ResourceType, Stored } from "@keelson/api-machinery";
import type { ByteStream, KubernetesList, WatchEvent } from "@keelson/api-machinery/transport";

/** Called each time before the request is sent, also before it is sent again at the server's wish. Throwing refuses it. */
export type BeforeSend = () => void;

/** Options of every write. */
export interface WriteOptions {
  /** Who owns the fields that are written. Default: the client's. */
  readonly fieldManager?: string;
  /** Runs admission and validation and stores nothing. */
  readonly dryRun?: boolean;
  /** What happens to unknown fields; the server's default is `Warn`. */
  readonly fieldValidation?: "Ignore" | "Warn" | "Strict";
  readonly signal?: AbortSignal | undefined;
  readonly beforeSend?: BeforeSend | undefined;
}

/** Options of {@link Client.create}. */
export interface CreateOptions extends WriteOptions {
  /**
   * Makes the object in a subresource instead of a collection: a Binding or Eviction of a Pod, a TokenRequest of a
   * ServiceAccount. The new object's `metadata` names the object that it is made for. The server may answer another kind (a
   * Binding is answered with a Status).
   */
  readonly subresource?: { readonly of: ResourceType; readonly name: "binding" | "eviction" | "token" };
}

/** Options of {@link Client.apply}. */
export interface ApplyOptions extends WriteOptions {
  /** Takes over fields that others own instead of failing with a conflict. Default: true, as a controller wants it. */
  readonly force?: boolean;
}

/** Options of {@link Client.list} and {@link Client.watch}. */
export interface ListOptions {
  /** Default: all namespaces. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: "Exact" | "NotOlderThan";
  readonly limit?: number;
  readonly continue?: string;
  /** Asks for `apiVersion`, `kind` and `metadata` alone (`PartialObjectMetadata`). A server in this process may send all. */
  readonly metadataOnly?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Options of {@link Client.watch}. */
export interface WatchOptions extends ListOptions {
  readonly allowWatchBookmarks?: boolean;
  /** The server ends the watch after this long. */
  readonly timeoutSeconds?: number;
  readonly sendInitialEvents?: boolean;
  /** See `ApiRequest.decode`. */
  readonly decode?: (line: Buffer) => unknown;
}

/** Options of {@link Client.delete}. */
export interface DeleteOptions {
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
  readonly gracePeriodSeconds?: number;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly dryRun?: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly beforeSend?: BeforeSend | undefined;
}

/** Options of {@link Client.podLog}, as core/v1 PodLogOptions has them. */
export interface PodLogOptions {
  /** Default: the Pod's only container. */
  readonly container?: string;
  /** Goes on until the container has ended. */
  readonly follow?: boolean;
  /** The container before its last restart. */
  readonly previous?: boolean;
  /** Begins at the last lines, so many. Default: at the first. */
  readonly tailLines?: number;
  /** RFC 3339. Leaves out what was written before. */
  readonly sinceTime?: string;
  readonly signal?: AbortSignal | undefined;
}

/** A patch of one of the four types that Kubernetes knows besides apply. */
export type Patch =
  | { readonly type: "json"; readonly operations: readonly JsonPatchOperation[] }
  | { readonly type: "merge"; readonly body: unknown }
  | { readonly type: "strategic"; readonly body: unknown };

/** One operation of a JSON Patch (RFC 6902). */
export interface JsonPatchOperation {
  readonly op: "add" | "remove" | "replace" | "move" | "copy" | "test";
  readonly path: string;
  readonly from?: string;
  readonly value?: unknown;
}

/** What an apply sends: the fields that the caller wants to own, and the object's name. */
export type ApplyConfiguration<T extends KubernetesObject> = DeepReadonly<
  DeepPartial<Omit<T, "metadata" | "apiVersion" | "kind">>
> & {
  readonly metadata: DeepReadonly<DeepPartial<T["metadata"]>> & { readonly name: string };
};

/** A list as {@link Client.list} answers it. */
export type StoredList<T extends KubernetesObject> = DeepReadonly<Omit<KubernetesList<T>, "items">> & {
  readonly items: readonly Stored<T>[];
};

/** A watch on one kind: typed events, until it ends, breaks (throws) or is closed. */
export interface TypedWatch<T> extends AsyncIterable<WatchEvent<DeepReadonly<T>>> {
  /** See `WatchStream.batches`. */
  batches?(): AsyncIterable<readonly WatchEvent<DeepReadonly<T>>[]>;
  close(): void;
}

/**
 * One client for every kind. What it returns may be frozen and shared: copy it with `draft` before changing it.
 *
 * **Errors**: every method throws a `StatusError` where the server refuses, and a `TransportError` where no answer came.
 */
export interface Client {
  get<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<Stored<T>>;
  list<T extends KubernetesObject>(type: ResourceType<T>, options?: ListOptions): Promise<StoredList<T>>;
  watch<T extends KubernetesObject>(type: ResourceType<T>, options?: WatchOptions): Promise<TypedWatch<T>>;
  /** `apiVersion` and `kind` are filled in from `type`. */
  create<T extends KubernetesObject>(type: ResourceType<T>, object: NewObject<T>, options?: CreateOptions): Promise<Stored<T>>;
  /** Replaces the object, or a subresource of it (`finalize`). `metadata.resourceVersion`, where it is set, must match. */
  update<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: WriteOptions & { readonly subresource?: string },
  ): Promise<Stored<T>>;
  updateStatus<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: WriteOptions,
  ): Promise<Stored<T>>;
  patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    patch: Patch,
    options?: WriteOptions & { readonly subresource?: string },
  ): Promise<Stored<T>>;
  /** Server-side apply (KEP-555). Creates what is not there. */
  apply<T extends KubernetesObject>(
    type: ResourceType<T>,
    configuration: ApplyConfiguration<T>,
    options?: ApplyOptions,
  ): Promise<Stored<T>>;
  /** Server-side apply to the status subresource. With `metadata.resourceVersion` it is refused when the object moved on. */
  applyStatus<T extends KubernetesObject>(
    type: ResourceType<T>,
    configuration: ApplyConfiguration<T>,
    options?: ApplyOptions,
  ): Promise<Stored<T>>;
  delete(type: ResourceType, key: ObjectKey, options?: DeleteOptions): Promise<void>;
  deleteCollection(type: ResourceType, selection: ListOptions, options?: DeleteOptions): Promise<void>;
  /** What a container of a Pod writes, standard output and error together. A `BadRequest` says that it has not started. */
  podLog(pod: ObjectKey, options?: PodLogOptions): Promise<ByteStream>;
  /** Closes the transport. */
  close(): Promise<void>;
}

/**
 * An object as it is given to {@link Client.create}: without what the server or `type` fills in. What a schema has defaults for
 * is asked for nevertheless, as the object's type has it; {@link Client.apply} takes an object without.
 */
export type NewObject<T extends KubernetesObject> = Omit<DeepReadonly<T>, "apiVersion" | "kind" | "metadata" | "status"> & {
  readonly metadata: DeepReadonly<DeepPartial<T["metadata"]>>;
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly status?: unknown;
};
