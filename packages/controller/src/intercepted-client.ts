import type { DeepReadonly, KubernetesList, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import type {
  ApplyConfiguration,
  ApplyOptions,
  Client,
  DeleteOptions,
  ListOptions,
  NewObject,
  Patch,
  TypedWatch,
  WatchOptions,
  WriteOptions,
} from "@keelson/client";

/** What an {@link InterceptedClient} does around writes. */
export interface WriteHooks {
  /** Before a write. Throwing refuses it. */
  readonly beforeWrite?: () => void;
  /** After a write that was stored, with the object as it is now. */
  readonly written?: (type: ResourceType, object: DeepReadonly<KubernetesObject>) => void;
  /** Before a delete. What it returns is called when the delete was accepted. */
  readonly deleting?: (type: ResourceType, key: ObjectKey) => () => void;
}

/** A client that tells of its writes. Reads go straight through. Closing it does nothing: the client below is not its own. */
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
  ): Promise<DeepReadonly<T>> {
    return this.#client.get(type, key, options);
  }

  list<T extends KubernetesObject>(type: ResourceType<T>, options?: ListOptions): Promise<DeepReadonly<KubernetesList<T>>> {
    return this.#client.list(type, options);
  }

  watch<T extends KubernetesObject>(type: ResourceType<T>, options?: WatchOptions): Promise<TypedWatch<T>> {
    return this.#client.watch(type, options);
  }

  create<T extends KubernetesObject>(type: ResourceType<T>, object: NewObject<T>, options?: WriteOptions) {
    return this.#write(type, options, () => this.#client.create(type, object, options));
  }

  update<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: WriteOptions & { readonly subresource?: string },
  ) {
    return this.#write(type, options, () => this.#client.update(type, object, options));
  }

  updateStatus<T extends KubernetesObject>(type: ResourceType<T>, object: DeepReadonly<T>, options?: WriteOptions) {
    return this.#write(type, options, () => this.#client.updateStatus(type, object, options));
  }

  patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    patch: Patch,
    options?: WriteOptions & { readonly subresource?: string },
  ) {
    return this.#write(type, options, () => this.#client.patch(type, key, patch, options));
  }

  apply<T extends KubernetesObject>(type: ResourceType<T>, configuration: ApplyConfiguration<T>, options?: ApplyOptions) {
    return this.#write(type, options, () => this.#client.apply(type, configuration, options));
  }

  applyStatus<T extends KubernetesObject>(type: ResourceType<T>, configuration: ApplyConfiguration<T>, options?: ApplyOptions) {
    return this.#write(type, options, () => this.#client.applyStatus(type, configuration, options));
  }

  async delete(type: ResourceType, key: ObjectKey, options?: DeleteOptions): Promise<void> {
    this.#hooks.beforeWrite?.();
    const deleted = options?.dryRun ? undefined : this.#hooks.deleting?.(type, key);
    await this.#client.delete(type, key, options);
    deleted?.();
  }

  async deleteCollection(type: ResourceType, selection: ListOptions, options?: DeleteOptions): Promise<void> {
    this.#hooks.beforeWrite?.();
    await this.#client.deleteCollection(type, selection, options);
  }

  async close(): Promise<void> {}

  async #write<T extends KubernetesObject>(
    type: ResourceType<T>,
    options: { readonly dryRun?: boolean } | undefined,
    write: () => Promise<DeepReadonly<T>>,
  ): Promise<DeepReadonly<T>> {
    this.#hooks.beforeWrite?.();
    const object = await write();
    if (!options?.dryRun) this.#hooks.written?.(type, object as DeepReadonly<KubernetesObject>);
    return object;
  }
}
