import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType, Stored } from "@keelson/api-machinery";
import type { ByteStream } from "@keelson/api-machinery/transport";
import type {
  ApplyConfiguration,
  ApplyOptions,
  Client,
  CreateOptions,
  DeleteOptions,
  ListOptions,
  NewObject,
  Patch,
  PodLogOptions,
  StoredList,
  TypedWatch,
  WatchOptions,
  WriteOptions,
} from "@keelson/client";
import type { WriteVerb } from "./reconcile-trace.ts";

/** Hooks of an {@link InterceptedClient}. */
export interface WriteHooks {
  /** Called for a read; without a name it is a list. */
  readonly read?: (type: ResourceType, key: Partial<ObjectKey>) => void;
  /** Called before a write, each time that it is sent. Throwing refuses the write. */
  readonly beforeWrite?: () => void;
  /** Cancels writes in flight whose caller passed no signal. */
  readonly signal?: AbortSignal;
  /** Called after a write was stored, with the new object. */
  readonly written?: (type: ResourceType, object: DeepReadonly<KubernetesObject>, verb: WriteVerb) => void;
  /** Called before a delete. The returned function is called when the delete was accepted. */
  readonly deleting?: (type: ResourceType, key: ObjectKey) => () => void;
  /** Called after a write failed. */
  readonly refused?: (type: ResourceType, key: Partial<ObjectKey>, verb: WriteVerb, error: unknown) => void;
}

/** A client that calls hooks around its requests. Closing it does nothing, because it does not own the underlying client. */
export class InterceptedClient implements Client {
  readonly #client: Client;
  readonly #hooks: WriteHooks;

  constructor(client: Client, hooks: WriteHooks) {
    this.#client = client;
    this.#hooks = hooks;
  }

  get<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<Stored<T>> {
    this.#hooks.read?.(type, key);
    return this.#client.get(type, key, options);
  }

  list<T extends KubernetesObject>(type: ResourceType<T>, options?: ListOptions): Promise<StoredList<T>> {
    this.#hooks.read?.(type, options?.namespace === undefined ? {} : { namespace: options.namespace });
    return this.#client.list(type, options);
  }

  watch<T extends KubernetesObject>(type: ResourceType<T>, options?: WatchOptions): Promise<TypedWatch<T>> {
    return this.#client.watch(type, options);
  }

  create<T extends KubernetesObject>(type: ResourceType<T>, object: NewObject<T>, options?: CreateOptions) {
    return this.#write("create", type, object.metadata, options, () => this.#client.create(type, object, this.#guard(options)));
  }

  update<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: WriteOptions & { readonly subresource?: string },
  ) {
    return this.#write("update", type, object.metadata, options, () => this.#client.update(type, object, this.#guard(options)));
  }

  updateStatus<T extends KubernetesObject>(type: ResourceType<T>, object: DeepReadonly<T>, options?: WriteOptions) {
    return this.#write("updateStatus", type, object.metadata, options, () =>
      this.#client.updateStatus(type, object, this.#guard(options)),
    );
  }

  patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    patch: Patch,
    options?: WriteOptions & { readonly subresource?: string },
  ) {
    return this.#write("patch", type, key, options, () => this.#client.patch(type, key, patch, this.#guard(options)));
  }

  apply<T extends KubernetesObject>(type: ResourceType<T>, configuration: ApplyConfiguration<T>, options?: ApplyOptions) {
    return this.#write("apply", type, configuration.metadata, options, () =>
      this.#client.apply(type, configuration, this.#guard(options)),
    );
  }

  applyStatus<T extends KubernetesObject>(type: ResourceType<T>, configuration: ApplyConfiguration<T>, options?: ApplyOptions) {
    return this.#write("applyStatus", type, configuration.metadata, options, () =>
      this.#client.applyStatus(type, configuration, this.#guard(options)),
    );
  }

  async delete(type: ResourceType, key: ObjectKey, options?: DeleteOptions): Promise<void> {
    const deleted = options?.dryRun ? undefined : this.#hooks.deleting?.(type, key);
    await this.#guarded("delete", type, key, () => this.#client.delete(type, key, this.#guard(options)));
    deleted?.();
  }

  async deleteCollection(type: ResourceType, selection: ListOptions, options?: DeleteOptions): Promise<void> {
    const { namespace } = selection;
    const key = namespace === undefined ? {} : { namespace };
    const own = { ...options, signal: options?.signal ?? selection.signal };
    await this.#guarded("deleteCollection", type, key, () => this.#client.deleteCollection(type, selection, this.#guard(own)));
  }

  podLog(pod: ObjectKey, options?: PodLogOptions): Promise<ByteStream> {
    return this.#client.podLog(pod, options);
  }

  async close(): Promise<void> {}

  async #write<T extends KubernetesObject>(
    verb: WriteVerb,
    type: ResourceType<T>,
    key: Partial<ObjectKey>,
    options: { readonly dryRun?: boolean } | undefined,
    write: () => Promise<Stored<T>>,
  ): Promise<Stored<T>> {
    const object = await this.#guarded(verb, type, key, write);
    if (!options?.dryRun) this.#hooks.written?.(type, object, verb);
    return object;
  }

  #guard<O extends Pick<WriteOptions, "signal" | "beforeSend">>(options: O | undefined): O | undefined {
    const { beforeWrite, signal } = this.#hooks;
    if (beforeWrite === undefined) return options;
    return { ...options, beforeSend: beforeWrite, signal: options?.signal ?? signal } as O;
  }

  async #guarded<R>(verb: WriteVerb, type: ResourceType, key: Partial<ObjectKey>, write: () => Promise<R>): Promise<R> {
    try {
      this.#hooks.beforeWrite?.();
      return await write();
    } catch (error) {
      this.#hooks.refused?.(type, key, verb, error);
      throw error;
    }
  }
}
