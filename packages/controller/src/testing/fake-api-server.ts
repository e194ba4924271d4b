import { deepFreeze, draft, type KubernetesObject, type Status, statusError, type StatusReason } from "@keelson/api-machinery";
import type { ApiRequest, ApiResponse, Transport, WatchEvent, WatchStream } from "@keelson/api-machinery/transport";

type Stored = KubernetesObject & { status?: unknown; spec?: unknown };

/** Called before a request is served. May return a response or throw an error instead. */
export type Interceptor = (request: ApiRequest, isWatch: boolean) => ApiResponse | Promise<ApiResponse | undefined> | undefined;

/**
 * An API server for the runtime's own tests, with fault injection. It has no validation and no field ownership, and a single
 * version counter. Behavior of real servers is tested against the embedded one.
 */
export class FakeApiServer implements Transport {
  readonly objects = new Map<string, Stored>();
  readonly requests: ApiRequest[] = [];
  /** Called before every request. */
  intercept: Interceptor | undefined;
  /** Maximum number of objects per page. */
  pageSize = Number.POSITIVE_INFINITY;
  /** Whether watches support `sendInitialEvents`. `unmarked`: they send the initial events, but no bookmark at their end. */
  streams: boolean | "unmarked" = false;
  readonly #watches = new Set<FakeWatch>();
  #log: { readonly version: number; readonly path: string; readonly event: WatchEvent<Stored> }[] = [];
  #version = 100;
  #uids = 0;

  get version(): string {
    return String(this.#version);
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  async request(request: ApiRequest): Promise<ApiResponse> {
    await Promise.resolve();
    request.signal?.throwIfAborted();
    this.requests.push(request);
    const response = await this.intercept?.(request, false);
    if (response !== undefined) return response;
    try {
      return { status: request.method === "POST" ? 201 : 200, headers: {}, body: this.#serve(request) };
    } catch (error) {
      const { status } = error as { readonly status?: Status };
      if (status === undefined) throw error;
      return { status: status.code ?? 500, headers: {}, body: status };
    }
  }

  async watch(request: ApiRequest): Promise<WatchStream> {
    await Promise.resolve();
    this.requests.push(request);
    const response = await this.intercept?.(request, true);
    if (response !== undefined) throw statusErrorFrom(response);
    const isStream = request.query?.["sendInitialEvents"] === "true";
    if (isStream && this.streams === false) throw statusError("Invalid", "sendInitialEvents is forbidden");
    const from = isStream ? this.#version : Number(request.query?.["resourceVersion"] ?? this.#version);
    const oldest = this.#log[0]?.version ?? this.#version + 1;
    if (from < oldest - 1 && from < this.#compactedTo) throw statusError("Expired", `too old resource version: ${from}`);
    const watch = new FakeWatch(request.path, this.#version, request.signal, () => this.#watches.delete(watch));
    if (isStream) {
      for (const [at, object] of this.objects) if (watch.covers(at)) watch.push({ type: "ADDED", object });
      const annotations = { "k8s.io/initial-events-end": "true" };
      const metadata = { resourceVersion: this.version, annotations };
      if (this.streams === true) watch.push({ type: "BOOKMARK", object: { metadata } });
    }
    for (const { version, path, event } of this.#log) if (version > from && watch.covers(path)) watch.push(event);
    this.#watches.add(watch);
    return watch;
  }

  async close(): Promise<void> {
    this.endWatches();
  }

  /** Ends every watch: regularly, as after its timeout, or with an error, as on a lost connection. */
  endWatches(error?: Error): void {
    for (const watch of this.#watches) watch.end(error);
  }

  /** Sends an event to every watch. */
  send(event: WatchEvent<unknown>): void {
    for (const watch of this.#watches) watch.push(event);
  }

  /** Sends a bookmark of the newest version to every watch, unless events are held back. */
  bookmark(): void {
    if (this.#held === undefined) this.send({ type: "BOOKMARK", object: { metadata: { resourceVersion: this.version } } });
  }

  #compactedTo = 0;
  /** Compacts all events so far: watches from earlier versions get 410. */
  compact(): void {
    this.#compactedTo = this.#version;
    this.#log = [];
  }

  /** Holds back events until {@link resume}: writes are stored, but not yet delivered. */
  pause(): void {
    this.#held ??= [];
  }

  resume(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const send of held) send();
  }
  #held: (() => void)[] | undefined;

  #serve(request: ApiRequest): unknown {
    const { method, path } = request;
    const [, resource = "", name, subresource] =
      /^(.*?\/[a-z]+)(?:\/([a-z0-9.-]+))?(?:\/(status|scale))?$/.exec(rest(path)) ?? [];
    const collection = path.slice(0, path.length - rest(path).length) + resource;
    if (method === "POST") return this.#create(path, request.body as Stored);
    if (name === undefined) return method === "GET" ? this.#list(path, request) : statusError("MethodNotAllowed", path);
    const at = `${collection}/${name}`;
    const current = this.objects.get(at);
    if (method === "PATCH" && current === undefined && request.headers?.["content-type"]?.includes("apply")) {
      return this.#create(collection, request.body as Stored);
    }
    if (current === undefined) throw statusError("NotFound", `${path} not found`);
    if (method === "GET") return current;
    if (method === "DELETE") return this.#delete(at, current);
    const body = request.body as Stored;
    const expected = body.metadata?.resourceVersion;
    if (expected !== undefined && expected !== current.metadata.resourceVersion) {
      throw statusError("Conflict" satisfies StatusReason, `${path}: the object has been modified`);
    }
    const wanted = method === "PUT" ? draft(body) : (merge(current, body) as Stored);
    const next = (subresource === "status" ? { ...current, status: wanted.status } : wanted) as Stored;
    return this.#store(at, current, next);
  }

  #list(path: string, request: ApiRequest): unknown {
    const asked = request.query?.["continue"];
    const first = {
      version: this.version,
      rest: [...this.objects].filter(([at]) => covers(path, at)).map(([, object]) => object),
    };
    const { version, rest } = asked === undefined ? first : (this.#pages.get(asked) ?? first);
    const limit = Math.min(Number(request.query?.["limit"] ?? this.pageSize), this.pageSize);
    const token = String(this.#pages.size + 1);
    // Further pages belong to the snapshot of the first.
    if (rest.length > limit) this.#pages.set(token, { version, rest: rest.slice(limit) });
    return deepFreeze({
      kind: "List",
      apiVersion: "v1",
      metadata: { resourceVersion: version, ...(rest.length > limit ? { continue: token } : {}) },
      items: rest.slice(0, limit),
    });
  }
  readonly #pages = new Map<string, { readonly version: string; readonly rest: readonly Stored[] }>();

  #create(collection: string, body: Stored): Stored {
    const name = body.metadata.name ?? `${body.metadata.generateName}${++this.#uids}`;
    const at = `${collection}/${name}`;
    if (this.objects.has(at)) throw statusError("AlreadyExists", `${at} already exists`);
    const namespace = /\/namespaces\/([^/]+)\//.exec(at)?.[1];
    const object = draft(body) as Stored;
    object.metadata = {
      ...object.metadata,
      name,
      ...(namespace ? { namespace } : {}),
      uid: `uid-${++this.#uids}`,
      generation: 1,
    };
    return this.#write(at, "ADDED", object);
  }

  #store(at: string, current: Stored, next: Stored): Stored {
    const specChanged = JSON.stringify(next.spec) !== JSON.stringify(current.spec);
    const object = draft(next) as Stored;
    const { uid, generation = 1, deletionTimestamp } = current.metadata;
    object.metadata.uid = uid ?? "";
    object.metadata.generation = generation + (specChanged ? 1 : 0);
    if (deletionTimestamp !== undefined && !object.metadata.finalizers?.length) return this.#remove(at, object);
    if (
      JSON.stringify({ ...object, metadata: { ...object.metadata, resourceVersion: "" } }) ===
      JSON.stringify({ ...current, metadata: { ...current.metadata, resourceVersion: "" } })
    ) {
      return current;
    }
    return this.#write(at, "MODIFIED", object);
  }

  #delete(at: string, current: Stored): unknown {
    if (!current.metadata.finalizers?.length) this.#remove(at, draft(current));
    else if (current.metadata.deletionTimestamp === undefined) {
      const object = draft(current) as Stored;
      object.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
      this.#write(at, "MODIFIED", object);
    }
    return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" };
  }

  #remove(at: string, object: Stored): Stored {
    const last = this.#write(at, "DELETED", object);
    this.objects.delete(at);
    return last;
  }

  #write(at: string, type: "ADDED" | "MODIFIED" | "DELETED", object: Stored): Stored {
    object.metadata.resourceVersion = String(++this.#version);
    const stored = deepFreeze(object) as Stored;
    this.objects.set(at, stored);
    const entry = { version: this.#version, path: at, event: { type, object: stored } };
    this.#log.push(entry);
    const send = (): void => {
      // A watch that was opened while the event was delayed has received it from the log.
      for (const watch of this.#watches) if (watch.covers(at) && entry.version > watch.openedAt) watch.push(entry.event);
    };
    if (this.#held === undefined) send();
    else this.#held.push(send);
    return stored;
  }
}

class FakeWatch implements WatchStream {
  /** The server's version when it was opened. */
  readonly openedAt: number;
  readonly #path: string;
  readonly #queue: WatchEvent<unknown>[] = [];
  readonly #onEnd: () => void;
  #wake: (() => void) | undefined;
  #isEnded = false;
  #error: Error | undefined;

  constructor(path: string, openedAt: number, signal: AbortSignal | undefined, onEnd: () => void) {
    this.#path = path;
    this.openedAt = openedAt;
    this.#onEnd = onEnd;
    signal?.addEventListener("abort", () => this.close(), { once: true });
  }

  covers(at: string): boolean {
    return covers(this.#path, at);
  }

  push(event: WatchEvent<unknown>): void {
    this.#queue.push(event);
    this.#wake?.();
  }

  end(error?: Error): void {
    this.#isEnded = true;
    this.#error = error;
    this.#onEnd();
    this.#wake?.();
  }

  close(): void {
    this.#queue.length = 0;
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent<unknown>, void, undefined> {
    for (;;) {
      const event = this.#queue.shift();
      if (event !== undefined) yield event;
      else if (this.#isEnded) {
        if (this.#error !== undefined) throw this.#error;
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}

/** The part of a path after group, version and namespace. */
function rest(path: string): string {
  return path.replace(/^\/(?:api|apis\/[^/]+)\/[^/]+(?:\/namespaces\/[^/]+(?=\/))?/, "");
}

/** Whether the object at `at` belongs to the collection at `path`, of one namespace or of all. */
function covers(path: string, at: string): boolean {
  const collection = at.slice(0, at.lastIndexOf("/"));
  return collection === path || collection.replace(/\/namespaces\/[^/]+/, "") === path;
}

function merge(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const base = typeof target === "object" && target !== null && !Array.isArray(target) ? target : {};
  const result: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merge(result[key], value);
  }
  return result;
}

function statusErrorFrom(response: ApiResponse): Error {
  const status = response.body as Status;
  return statusError(status.reason as StatusReason, status.message ?? "", status.details);
}
