import type { DeepPartial, DeepReadonly, KubernetesObject, ObjectKey, ResourceType, Stored } from "@keelson/api-machinery";
import type { ByteStream, KubernetesList, WatchEvent } from "@keelson/api-machinery/transport";

/** Called every time before the request is sent, including retries. Throwing cancels the request. */
export type BeforeSend = () => void;

/** Options of every write. */
export interface WriteOptions {
  /** Owner of the written fields. Default: the client's field manager. */
  readonly fieldManager?: string;
  /** Runs admission and validation without storing anything. */
  readonly dryRun?: boolean;
  /** How the server treats unknown fields. Default: the server's, `Warn`. */
  readonly fieldValidation?: "Ignore" | "Warn" | "Strict";
  readonly signal?: AbortSignal | undefined;
  readonly beforeSend?: BeforeSend | undefined;
}

/** Options of {@link Client.create}. */
export interface CreateOptions extends WriteOptions {
  /**
   * Creates the object in a subresource instead of a collection: a Binding or Eviction of a Pod, a TokenRequest of a
   * ServiceAccount. The `metadata` of the new object names its parent. The server may return another kind: for a
   * Binding it returns a Status.
   */
  readonly subresource?: { readonly of: ResourceType; readonly name: "binding" | "eviction" | "token" };
}

/** Options of {@link Client.apply}. */
export interface ApplyOptions extends WriteOptions {
  /** Takes ownership of conflicting fields instead of failing with a conflict. Default: true, as controllers need it. */
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
  /** Requests only `apiVersion`, `kind` and `metadata` (`PartialObjectMetadata`). A server in this process may send complete objects. */
  readonly metadataOnly?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Options of {@link Client.watch}. */
export interface WatchOptions extends ListOptions {
  readonly allowWatchBookmarks?: boolean;
  /** The server ends the watch after this time. */
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

/** Options of {@link Client.podLog}, as in core/v1 PodLogOptions. */
export interface PodLogOptions {
  /** Default: the Pod's only container. */
  readonly container?: string;
  /** Streams until the container has ended. */
  readonly follow?: boolean;
  /** Returns the log of the container before its last restart. */
  readonly previous?: boolean;
  /** Number of lines from the end. Default: all. */
  readonly tailLines?: number;
  /** RFC 3339. Omits earlier lines. */
  readonly sinceTime?: string;
  readonly signal?: AbortSignal | undefined;
}

/** A patch: every type that Kubernetes supports other than apply. */
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

/** The fields that an apply sets and owns, and the object's name. */
export type ApplyConfiguration<T extends KubernetesObject> = DeepReadonly<
  DeepPartial<Omit<T, "metadata" | "apiVersion" | "kind">>
> & {
  readonly metadata: DeepReadonly<DeepPartial<T["metadata"]>> & { readonly name: string };
};

/** The result of {@link Client.list}. */
export type StoredList<T extends KubernetesObject> = DeepReadonly<Omit<KubernetesList<T>, "items">> & {
  readonly items: readonly Stored<T>[];
};

/** A watch of one kind: typed events until it ends, fails (throws) or is closed. */
export interface TypedWatch<T> extends AsyncIterable<WatchEvent<DeepReadonly<T>>> {
  /** See `WatchStream.batches`. */
  batches?(): AsyncIterable<readonly WatchEvent<DeepReadonly<T>>[]>;
  close(): void;
}

/**
 * A client for every kind. Returned objects may be frozen and shared: copy them with `draft` before changing them.
 *
 * **Errors**: every method throws a `StatusError` if the server rejects the request, and a `TransportError` if there is no response.
 */
export interface Client {
  get<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<Stored<T>>;
  list<T extends KubernetesObject>(type: ResourceType<T>, options?: ListOptions): Promise<StoredList<T>>;
  watch<T extends KubernetesObject>(type: ResourceType<T>, options?: WatchOptions): Promise<TypedWatch<T>>;
  /** Creates an object. `apiVersion` and `kind` are taken from `type`. */
  create<T extends KubernetesObject>(type: ResourceType<T>, object: NewObject<T>, options?: CreateOptions): Promise<Stored<T>>;
  /** Replaces the object or a subresource (`finalize`). If `metadata.resourceVersion` is set, it must match. */
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
  /** Server-side apply (KEP-555). Creates the object if it does not exist. */
  apply<T extends KubernetesObject>(
    type: ResourceType<T>,
    configuration: ApplyConfiguration<T>,
    options?: ApplyOptions,
  ): Promise<Stored<T>>;
  /** Server-side apply to the status subresource. With `metadata.resourceVersion` it fails with a conflict if the object has changed. */
  applyStatus<T extends KubernetesObject>(
    type: ResourceType<T>,
    configuration: ApplyConfiguration<T>,
    options?: ApplyOptions,
  ): Promise<Stored<T>>;
  delete(type: ResourceType, key: ObjectKey, options?: DeleteOptions): Promise<void>;
  deleteCollection(type: ResourceType, selection: ListOptions, options?: DeleteOptions): Promise<void>;
  /** The log of a container, standard output and error combined. Fails with `BadRequest` if the container has not started. */
  podLog(pod: ObjectKey, options?: PodLogOptions): Promise<ByteStream>;
  /** Closes the transport. */
  close(): Promise<void>;
}

/**
 * The argument of {@link Client.create}: an object without the fields that the server or `type` sets. Fields with schema defaults are
 * still required by the type; {@link Client.apply} accepts an object without them.
 */
export type NewObject<T extends KubernetesObject> = Omit<DeepReadonly<T>, "apiVersion" | "kind" | "metadata" | "status"> & {
  readonly metadata: DeepReadonly<DeepPartial<T["metadata"]>>;
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly status?: unknown;
};
