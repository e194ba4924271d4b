import { type Clock, formatTime, type Timer } from "@keelson/api-machinery/time";
import type { RemoteVersion } from "../discovery/resource-groups.ts";
import type { Outcome, PipelineRequest } from "../endpoints/outcome.ts";
import type { RandomSource } from "../endpoints/random-source.ts";
import type { RequestInfo } from "../endpoints/request-info.ts";
import type { ResourceTable } from "../registry/served-resource.ts";
import type { Endpoint } from "../registry/ready-endpoints.ts";
import { type Store, type StoredObject, type StoreEvent, storagePrefix, type StoreWatch } from "../storage/store.ts";
import { createServiceResolver, type ResolveService } from "../webhooks/service-resolver.ts";
import { forwardDocument, forwardToService, unavailable } from "./aggregated-proxy.ts";
import { type ApiServiceCondition, availability, type RemoteApi, remoteApi, withAvailability } from "./api-service.ts";
import { checkAvailability } from "./check-availability.ts";
import type { FrontProxy } from "./front-proxy.ts";
import { apiServicesPrefix, localGroupPriority, syncLocalApiServices, writeAvailability } from "./local-api-services.ts";
import { readRemoteDocuments, type RemoteDocuments } from "./remote-documents.ts";
import { fetchFromService, fetchStatus, type ServiceRequestOptions, type ServiceResponse } from "./service-request.ts";

/** What {@link Aggregator} takes. */
export interface AggregatorOptions {
  readonly clock: Clock;
  readonly random: RandomSource;
  /** The current client certificate for extension API servers. */
  readonly frontProxy: () => FrontProxy;
  readonly onError: (error: unknown) => void;
}

/** The server whose APIServices are aggregated. */
export interface AggregatedServer {
  readonly store: Store;
  readonly resources: Pick<ResourceTable, "list" | "onChange">;
}

const resyncMs = 30_000;
const minRetryMs = 1_000;
const local: ApiServiceCondition = {
  status: "True",
  reason: "Local",
  message: "Local APIServices are always available",
};

/** An APIService under observation. */
interface Followed {
  stored: StoredObject;
  remote: RemoteApi | undefined;
  documents: RemoteDocuments | undefined;
  failures: number;
  timer: Timer | undefined;
  isChecking: boolean;
  isDue: boolean;
}

/**
 * Serves group versions of extension API servers (APIServices with a Service) as parts of this server's API: keeps their condition
 * `Available` and their discovery current, and passes requests on. Registers the server's own group versions as local APIServices.
 */
export class Aggregator {
  readonly #options: AggregatorOptions;
  readonly #followed = new Map<string, Followed>();
  readonly #remotes = new Map<string, Followed>();
  readonly #listeners = new Set<() => void>();
  readonly #watches: StoreWatch[] = [];
  readonly #working = new Set<Promise<void>>();
  #store: Store | undefined;
  #resolve: ResolveService | undefined;
  #unsubscribe: (() => void) | undefined;
  #syncing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: AggregatorOptions) {
    this.#options = options;
  }

  /** Registers local APIServices and starts to follow all. Previously, no request is passed on. */
  async connect({ store, resources }: AggregatedServer): Promise<void> {
    const { clock, random } = this.#options;
    this.#store = store;
    this.#resolve = createServiceResolver(store, random);
    const sync = (): Promise<void> =>
      syncLocalApiServices({ store, resources, now: () => clock.now(), newId: () => random.uuid() });
    await sync();
    this.#unsubscribe = resources.onChange(() => {
      this.#syncing = this.#syncing.then(() => (this.#isClosed ? undefined : sync())).catch(this.#options.onError);
    });
    const { items, revision } = store.list(apiServicesPrefix);
    for (const stored of items) this.#follow(stored);
    this.#watches.push(
      store.watch(apiServicesPrefix, revision, (events) => {
        for (const { type, object } of events)
          if (type === "put") this.#follow(object);
          else this.#forget(object.key);
      }),
      store.watch(storagePrefix({ group: "", plural: "services" }), revision, (events) =>
        this.#checkServices(events, ({ object: { metadata } }) => metadata.name),
      ),
      store.watch(storagePrefix({ group: "discovery.k8s.io", plural: "endpointslices" }), revision, (events) =>
        this.#checkServices(events, ({ object: { metadata } }) => metadata.labels?.["kubernetes.io/service-name"]),
      ),
    );
  }

  /** Whether requests of a path are passed on. */
  includes(path: string): boolean {
    if (this.#remotes.size === 0) return false;
    const [, group = "", version = ""] = /^\/apis\/([^/]+)\/([^/]+)(?:\/|$)/.exec(path) ?? [];
    return this.#remotes.has(`${version}.${group}`);
  }

  /** Passes an authorized request on; undefined if this server serves it itself. */
  delegate(request: PipelineRequest, info: RequestInfo): Promise<Outcome> | undefined {
    if (this.#remotes.size === 0 || !this.includes(info.path)) return undefined;
    const [, group = "", version = ""] = /^\/apis\/([^/]+)\/([^/]+)/.exec(info.path) ?? [];
    const api = this.#remotes.get(`${version}.${group}`)?.remote;
    return api && this.#forward(api, request);
  }

  /** The group versions of extension API servers, for discovery. */
  remoteVersions(): readonly RemoteVersion[] {
    return [...this.#remotes.values()].flatMap(({ remote, documents }) =>
      remote === undefined
        ? []
        : [{ ...remote, discovery: documents?.discovery, openApiV2: documents?.openApiV2, openApiV3: documents?.openApiV3 }],
    );
  }

  /** The priority of one of the server's own groups in discovery. */
  readonly localGroupPriority = localGroupPriority;

  /** Reads the OpenAPI v3 document of a group version from its server. */
  async openApiV3(group: string, version: string, path: string, accept: string): Promise<Outcome> {
    const api = this.#remotes.get(`${version}.${group}`)?.remote;
    if (api === undefined || !api.isAvailable) return unavailable();
    return this.#fetch(api, path, accept).then(forwardDocument, (error: unknown) => {
      if (error instanceof TypeError) throw error;
      return unavailable();
    });
  }

  /** Calls back when {@link remoteVersions} has changed. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Stops checks and waits for those in progress. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unsubscribe?.();
    for (const watch of this.#watches) watch.close();
    for (const { timer } of this.#followed.values()) timer?.cancel();
    this.#listeners.clear();
    await this.#syncing;
    await Promise.all(this.#working);
  }

  #follow(stored: StoredObject): void {
    const known = this.#followed.get(stored.key);
    const remote = remoteApi(stored);
    const isSame = known !== undefined && specOf(known.stored) === specOf(stored);
    const documents = isSame ? known.documents : undefined;
    const unchecked = { failures: 0, timer: undefined, isChecking: false, isDue: false };
    const followed: Followed = known ?? { stored, remote, documents, ...unchecked };
    Object.assign(followed, { stored, remote, documents });
    this.#followed.set(stored.key, followed);
    const name = stored.object.metadata.name ?? "";
    if (remote === undefined) this.#remotes.delete(name);
    else this.#remotes.set(name, followed);
    if (!isSame && !(remote === undefined && availability(stored.object)?.["reason"] === local.reason)) this.#check(followed);
    if (remote !== undefined || known?.remote !== undefined) this.#notify();
  }

  #forget(key: string): void {
    const known = this.#followed.get(key);
    if (known === undefined) return;
    known.timer?.cancel();
    this.#followed.delete(key);
    if (this.#remotes.delete(known.stored.object.metadata.name ?? "")) this.#notify();
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  /** Checks the APIServices of Services that may have changed. `nameOf` returns the name of the Service that an object belongs to. */
  #checkServices(events: readonly StoreEvent[], nameOf: (stored: StoredObject) => string | undefined): void {
    const changed = new Set<string>();
    for (const { object, previous } of events)
      for (const stored of previous === undefined ? [object] : [object, previous])
        changed.add(`${stored.object.metadata.namespace ?? ""}/${nameOf(stored) ?? ""}`);
    for (const followed of this.#remotes.values()) {
      const { namespace = "", name = "" } = followed.remote?.service ?? {};
      if (changed.has(`${namespace}/${name}`)) this.#check(followed);
    }
  }

  /** Whether an entry is still that of its APIService: one that was deleted and created again has a new entry. */
  #isFollowed(followed: Followed): boolean {
    return !this.#isClosed && this.#followed.get(followed.stored.key) === followed;
  }

  /** Checks an APIService now, or once more after the check in progress. */
  #check(followed: Followed): void {
    followed.isDue = true;
    if (followed.isChecking || !this.#isFollowed(followed)) return;
    followed.isChecking = true;
    followed.timer?.cancel();
    const work = this.#runChecks(followed).finally(() => this.#working.delete(work));
    this.#working.add(work);
  }

  async #runChecks(followed: Followed): Promise<void> {
    let isWritten = true;
    try {
      while (followed.isDue && this.#isFollowed(followed)) {
        followed.isDue = false;
        await this.#checkOnce(followed);
      }
    } catch (error) {
      isWritten = false;
      followed.failures = Math.max(1, followed.failures);
      this.#options.onError(error);
    } finally {
      followed.isChecking = false;
    }
    // The condition of a local APIService changes only with the APIService itself.
    if ((followed.remote === undefined && isWritten) || !this.#isFollowed(followed)) return;
    const delay = followed.failures === 0 ? resyncMs : Math.min(resyncMs, minRetryMs * 2 ** (followed.failures - 1));
    followed.timer = this.#options.clock.setTimer(delay, () => this.#check(followed), { background: true });
  }

  async #checkOnce(followed: Followed): Promise<void> {
    const { stored, remote } = followed;
    const store = this.#store;
    if (store === undefined) return;
    const condition =
      remote === undefined
        ? local
        : await checkAvailability(remote, {
            store,
            resolve: (api) => this.#endpointOf(api),
            fetchStatus: (endpoint, path) => fetchStatus(this.#requestTo(remote, endpoint, path, "application/json")),
          });
    followed.failures = condition.status === "True" ? 0 : followed.failures + 1;
    if (remote !== undefined && condition.status === "True") await this.#refresh(followed, remote);
    const now = formatTime(this.#options.clock.now());
    const conditions = withAvailability(stored.object, condition, now);
    const before = availability(stored.object);
    const isSame =
      before?.["status"] === condition.status &&
      before["message"] === condition.message &&
      before["reason"] === condition.reason;
    if (isSame || !this.#isFollowed(followed)) return;
    const isWritten = await writeAvailability(store, stored, conditions);
    if (!isWritten) followed.isDue = true;
  }

  /** Reads the documents of an available API. */
  async #refresh(followed: Followed, api: RemoteApi): Promise<void> {
    const spec = specOf(followed.stored);
    const fetch = (path: string, accept: string): Promise<ServiceResponse> => this.#fetch(api, path, accept);
    const documents = await readRemoteDocuments(api, fetch, followed.documents).catch(() => followed.documents);
    // The APIService may have changed in the meantime.
    if (documents === followed.documents || specOf(followed.stored) !== spec) return;
    followed.documents = documents;
    this.#notify();
  }

  async #forward(api: RemoteApi, request: PipelineRequest): Promise<Outcome> {
    if (!api.isAvailable) return unavailable();
    let endpoint: Endpoint;
    try {
      endpoint = this.#endpointOf(api);
    } catch {
      return unavailable();
    }
    return forwardToService(request, { api, endpoint, frontProxy: this.#options.frontProxy() });
  }

  #endpointOf(api: RemoteApi): Endpoint {
    if (this.#resolve === undefined) throw new TypeError("the aggregator is not connected");
    return this.#resolve(api.service);
  }

  async #fetch(api: RemoteApi, path: string, accept: string): Promise<ServiceResponse> {
    return fetchFromService(this.#requestTo(api, this.#endpointOf(api), path, accept));
  }

  #requestTo(api: RemoteApi, endpoint: Endpoint, path: string, accept: string): ServiceRequestOptions {
    const { clock, frontProxy } = this.#options;
    return { api, endpoint, frontProxy: frontProxy(), path, accept, clock };
  }
}

function specOf({ object }: StoredObject): string | undefined {
  return JSON.stringify(Reflect.get(object, "spec"));
}
