import {
  apiVersionOf,
  type DeepReadonly,
  type KubernetesObject,
  type ObjectKey,
  type ResourceType,
  type Stored,
} from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { type Clock, sleep, systemClock } from "@keelson/api-machinery/time";
import type { ApiRequest, ByteStream, Transport } from "@keelson/api-machinery/transport";
import { statusErrorOf } from "../transport/response-status.ts";
import type {
  ApplyConfiguration,
  ApplyOptions,
  BeforeSend,
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
} from "./client.ts";
import { collectionPath, objectPath, requiredNamespace } from "./resource-path.ts";
import { maxRetries, retryDelayMs } from "./retry-after.ts";

/** Options of {@link createClient}. */
export interface ClientOptions {
  readonly transport: Transport;
  /** Owner of the fields that this client writes, unless a call sets its own. */
  readonly fieldManager: string;
  /** Default: the field manager. */
  readonly userAgent?: string;
  /** Delays retries. Default: the system clock. */
  readonly clock?: Clock;
  /** Called with every warning (RFC 7234 `Warning: 299`) of a response. */
  readonly onWarning?: (warning: string) => void;
}

/**
 * Creates a client over a transport: HTTP (`createHttpTransport`, `connect`) or in process.
 *
 * After a 429 or 503 with `Retry-After`, requests that are safe to repeat are retried a few times.
 *
 * **Example**
 *
 *     const client = createClient({ transport: createHttpTransport({ server: "http://127.0.0.1:8001" }), fieldManager: "example" });
 *     const { items } = await client.list(Pod, { namespace: "default" });
 */
export function createClient(options: ClientOptions): Client {
  return new TransportClient(options);
}

type Query = Record<string, string | undefined>;

const patchTypes: Readonly<Record<Patch["type"], string>> = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
};

class TransportClient implements Client {
  readonly #transport: Transport;
  readonly #fieldManager: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #clock: Clock;
  readonly #onWarning: ((warning: string) => void) | undefined;

  constructor(options: ClientOptions) {
    this.#transport = options.transport;
    this.#fieldManager = options.fieldManager;
    this.#headers = { "user-agent": options.userAgent ?? options.fieldManager };
    this.#clock = options.clock ?? systemClock;
    this.#onWarning = options.onWarning;
  }

  async get<T extends KubernetesObject>(type: ResourceType<T>, key: ObjectKey, options?: { signal?: AbortSignal | undefined }) {
    return (await this.#send("GET", objectPath(type, key), {}, undefined, options)) as Stored<T>;
  }

  async list<T extends KubernetesObject>(type: ResourceType<T>, options: ListOptions = {}) {
    const path = collectionPath(type, options.namespace);
    const headers = options.metadataOnly ? { accept: partial("PartialObjectMetadataList") } : undefined;
    const list = (await this.#send("GET", path, listQuery(options), undefined, options, headers)) as StoredList<T>;
    // A server in Go sends an empty PartialObjectMetadataList with `items: null`.
    return (list.items as StoredList<T>["items"] | null) === null ? { ...list, items: [] } : list;
  }

  async watch<T extends KubernetesObject>(type: ResourceType<T>, options: WatchOptions = {}): Promise<TypedWatch<T>> {
    const stream = await this.#transport.watch({
      method: "GET",
      path: collectionPath(type, options.namespace),
      query: {
        ...listQuery(options),
        watch: "true",
        allowWatchBookmarks: flag(options.allowWatchBookmarks),
        timeoutSeconds: options.timeoutSeconds?.toString(),
        sendInitialEvents: flag(options.sendInitialEvents),
      },
      headers: options.metadataOnly ? { ...this.#headers, accept: partial("PartialObjectMetadata") } : this.#headers,
      ...(options.decode === undefined ? {} : { decode: options.decode }),
      signal: options.signal,
    });
    return stream as TypedWatch<T>;
  }

  async create<T extends KubernetesObject>(type: ResourceType<T>, object: NewObject<T>, options: CreateOptions = {}) {
    const { namespace, name, generateName } = object.metadata;
    const { subresource } = options;
    const path =
      subresource === undefined
        ? collectionPath(type, requiredNamespace(type, namespace, name ?? generateName))
        : objectPath(subresource.of, keyOf(object), subresource.name);
    return (await this.#send("POST", path, this.#writeQuery(options), typed(type, object), options)) as Stored<T>;
  }

  async update<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options: WriteOptions & { readonly subresource?: string } = {},
  ) {
    const path = objectPath(type, keyOf(object), options.subresource);
    return (await this.#send("PUT", path, this.#writeQuery(options), typed(type, object), options)) as Stored<T>;
  }

  async updateStatus<T extends KubernetesObject>(type: ResourceType<T>, object: DeepReadonly<T>, options: WriteOptions = {}) {
    const path = objectPath(type, keyOf(object), "status");
    return (await this.#send("PUT", path, this.#writeQuery(options), typed(type, object), options)) as Stored<T>;
  }

  async patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    patch: Patch,
    options: WriteOptions & { readonly subresource?: string } = {},
  ) {
    const path = objectPath(type, key, options.subresource);
    const body = patch.type === "json" ? patch.operations : patch.body;
    const headers = { "content-type": patchTypes[patch.type] };
    return (await this.#send("PATCH", path, this.#writeQuery(options), body, options, headers)) as Stored<T>;
  }

  apply<T extends KubernetesObject>(type: ResourceType<T>, configuration: ApplyConfiguration<T>, options?: ApplyOptions) {
    return this.#apply(type, configuration, undefined, options);
  }

  applyStatus<T extends KubernetesObject>(type: ResourceType<T>, configuration: ApplyConfiguration<T>, options?: ApplyOptions) {
    return this.#apply(type, configuration, "status", options);
  }

  async delete(type: ResourceType, key: ObjectKey, options: DeleteOptions = {}): Promise<void> {
    await this.#send("DELETE", objectPath(type, key), {}, deleteBody(options), options);
  }

  async deleteCollection(type: ResourceType, selection: ListOptions, options: DeleteOptions = {}): Promise<void> {
    const path = collectionPath(type, selection.namespace);
    const { beforeSend, signal = selection.signal } = options;
    await this.#send("DELETE", path, listQuery(selection), deleteBody(options), { beforeSend, signal });
  }

  podLog(pod: ObjectKey, options: PodLogOptions = {}): Promise<ByteStream> {
    const path = objectPath(Pod, pod, "log");
    if (this.#transport.stream === undefined) throw new TypeError(`${path}: this transport does not support streaming`);
    const query = {
      container: options.container,
      follow: flag(options.follow),
      previous: flag(options.previous),
      tailLines: options.tailLines?.toString(),
      sinceTime: options.sinceTime,
    };
    return this.#transport.stream({ method: "GET", path, query, headers: this.#headers, signal: options.signal });
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  async #apply<T extends KubernetesObject>(
    type: ResourceType<T>,
    configuration: ApplyConfiguration<T>,
    subresource: string | undefined,
    options: ApplyOptions = {},
  ): Promise<Stored<T>> {
    const metadata = configuration.metadata as { readonly name: string; readonly namespace?: string };
    const path = objectPath(type, metadata, subresource);
    const query = { ...this.#writeQuery(options), force: flag(options.force ?? true) };
    const headers = { "content-type": "application/apply-patch+yaml" };
    return (await this.#send("PATCH", path, query, typed(type, configuration), options, headers)) as Stored<T>;
  }

  #writeQuery(options: WriteOptions): Query {
    return {
      fieldManager: options.fieldManager ?? this.#fieldManager,
      dryRun: options.dryRun ? "All" : undefined,
      fieldValidation: options.fieldValidation,
    };
  }

  async #send(
    method: ApiRequest["method"],
    path: string,
    query: Query,
    body: unknown,
    options?: { readonly signal?: AbortSignal | undefined; readonly beforeSend?: BeforeSend | undefined },
    headers?: Readonly<Record<string, string>>,
  ): Promise<unknown> {
    const request: ApiRequest = {
      method,
      path,
      query,
      headers: headers ? { ...this.#headers, ...headers } : this.#headers,
      signal: options?.signal,
      ...(body === undefined ? {} : { body }),
    };
    let repeats: number | undefined;
    for (let attempt = 0; ; attempt++) {
      options?.beforeSend?.();
      const response = await this.#transport.request(repeats === undefined ? request : { ...request, repeats });
      if (response.status >= 200 && response.status < 300) {
        if (this.#onWarning) reportWarnings(response.headers["warning"], this.#onWarning);
        return response.body;
      }
      const delayMs = attempt < maxRetries ? retryDelayMs(request, response, this.#clock) : undefined;
      if (delayMs === undefined) throw statusErrorOf(response.status, response.body, `${method} ${path}`);
      await sleep(this.#clock, delayMs, options?.signal);
      repeats = response.status;
    }
  }
}

function keyOf(object: { readonly metadata: { readonly name?: string; readonly namespace?: string } }): ObjectKey {
  return { namespace: object.metadata.namespace, name: object.metadata.name ?? "" };
}

function typed(type: ResourceType, object: object): object {
  return { ...object, apiVersion: apiVersionOf(type), kind: type.kind };
}

function flag(value: boolean | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}

/** Accepts objects of this kind, or complete ones from a server that does not support it. */
function partial(kind: "PartialObjectMetadata" | "PartialObjectMetadataList"): string {
  return `application/json;as=${kind};g=meta.k8s.io;v=v1,application/json`;
}

function listQuery(options: ListOptions): Query {
  return {
    labelSelector: options.labelSelector,
    fieldSelector: options.fieldSelector,
    resourceVersion: options.resourceVersion,
    resourceVersionMatch: options.resourceVersionMatch,
    limit: options.limit?.toString(),
    continue: options.continue,
  };
}

function deleteBody(options: DeleteOptions): object {
  return {
    apiVersion: "v1",
    kind: "DeleteOptions",
    ...(options.propagationPolicy === undefined ? {} : { propagationPolicy: options.propagationPolicy }),
    ...(options.gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds: options.gracePeriodSeconds }),
    ...(options.preconditions === undefined ? {} : { preconditions: options.preconditions }),
    ...(options.dryRun ? { dryRun: ["All"] } : {}),
  };
}

/** Reports the texts of a `Warning` header: `299 - "first", 299 - "second"`. */
function reportWarnings(header: string | undefined, report: (warning: string) => void): void {
  if (header === undefined) return;
  for (const match of header.matchAll(/\b299 \S+ "((?:[^"\\]|\\.)*)"/g)) {
    report((match[1] ?? "").replaceAll(/\\(.)/g, "$1"));
  }
}
