import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import { type Clock, sleep, type Timer } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer } from "@keelson/controller/informer";
import { ClusterError } from "./cluster-error.ts";
import type { KindSource } from "./garbage-collector/object-monitor.ts";

/** Options of {@link discoverKinds}. */
export interface DiscoverKindsOptions {
  /** Reads discovery documents. */
  readonly transport: Transport;
  /** Watches CustomResourceDefinitions and APIServices. */
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** A {@link KindSource} that must be stopped. */
export interface DiscoveredKinds extends KindSource {
  staleVersions(): readonly string[];
  stop(): Promise<void>;
}

const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const apiServices: ResourceType<KubernetesObject> = {
  group: "apiregistration.k8s.io",
  version: "v1",
  kind: "APIService",
  plural: "apiservices",
  scope: "Cluster",
};
/** CustomResourceDefinitions change in bursts, and a new one is served shortly after it was stored. */
const settleMs = 200;
const retryMs = 1_000;
/** The documents of an extension API server may be read later than its APIService becomes available, which no watch event shows. */
const staleRetryMs = 5_000;

/**
 * Lists the deletable kinds of an API server through aggregated discovery (KEP-3352), once per kind in its preferred version, and
 * refreshes the list when a CustomResourceDefinition or an APIService changes, and every 5 s while a version is stale.
 *
 * **Errors**: rejects if the first discovery request fails.
 */
export async function discoverKinds(options: DiscoverKindsOptions): Promise<DiscoveredKinds> {
  const kinds = new DiscoveredKindSource(options);
  await kinds.refresh();
  kinds.start();
  return kinds;
}

class DiscoveredKindSource implements DiscoveredKinds {
  readonly #options: DiscoverKindsOptions;
  readonly #stopped = new AbortController();
  readonly #listeners = new Set<() => void>();
  #kinds: readonly ResourceType[] = [];
  #staleVersions: readonly string[] = [];
  #running: Promise<unknown> = Promise.resolve();
  #isDue = false;
  #refreshing: Promise<void> | undefined;
  #staleTimer: Timer | undefined;

  constructor(options: DiscoverKindsOptions) {
    this.#options = options;
  }

  list(): readonly ResourceType[] {
    return this.#kinds;
  }

  staleVersions(): readonly string[] {
    return this.#staleVersions;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    const { client, clock, random, log } = this.#options;
    const onEffect = (): void => this.#schedule();
    const common = { client, clock, random, log, onEffect };
    const informers = [
      new Informer({ ...common, type: CustomResourceDefinition }),
      new Informer({ ...common, type: apiServices }),
    ];
    this.#running = Promise.all(informers.map((informer) => informer.run(this.#stopped.signal)));
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#staleTimer?.cancel();
    this.#listeners.clear();
    await this.#running;
    await this.#refreshing;
  }

  async refresh(): Promise<void> {
    const { transport } = this.#options;
    const documents = await Promise.all(
      ["/api", "/apis"].map((path) =>
        transport.request({ method: "GET", path, headers: { accept }, signal: this.#stopped.signal }),
      ),
    );
    const failed = documents.find(({ status }) => status !== 200);
    if (failed !== undefined) throw new ClusterError("Discovery", `discovery failed with HTTP status ${failed.status}`);
    const kinds = documents.flatMap(({ body }) => deletableKinds(body as GroupList));
    const staleVersions = documents.flatMap(({ body }) => staleVersionsOf(body as GroupList));
    if (JSON.stringify([kinds, staleVersions]) === JSON.stringify([this.#kinds, this.#staleVersions])) return;
    this.#kinds = kinds;
    this.#staleVersions = staleVersions;
    for (const listener of [...this.#listeners]) listener();
  }

  #schedule(): void {
    this.#isDue = true;
    this.#refreshing ??= this.#refreshUntilCurrent().finally(() => {
      this.#refreshing = undefined;
    });
  }

  async #refreshUntilCurrent(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopped;
    for (let delayMs = settleMs; this.#isDue && !signal.aborted; delayMs = settleMs) {
      await sleep(clock, delayMs, signal).catch(() => {});
      this.#isDue = false;
      await this.refresh().catch(async (error: unknown) => {
        if (signal.aborted) return;
        log.warn({ err: error }, "discovery failed; retrying");
        this.#isDue = true;
        await sleep(clock, retryMs, signal).catch(() => {});
      });
    }
    this.#staleTimer?.cancel();
    if (this.#staleVersions.length === 0 || signal.aborted) return;
    this.#staleTimer = clock.setTimer(staleRetryMs, () => this.#schedule(), { background: true });
  }
}

/** The part of an APIGroupDiscoveryList (apidiscovery.k8s.io/v2) that is read. */
interface GroupList {
  readonly items?: readonly {
    readonly metadata: { readonly name?: string };
    readonly versions: readonly {
      readonly version: string;
      /** `Stale` while the extension API server of the group version is not available. */
      readonly freshness?: string;
      readonly resources?: readonly {
        readonly resource: string;
        readonly responseKind?: { readonly kind: string };
        readonly scope: "Cluster" | "Namespaced";
        readonly verbs: readonly string[];
      }[];
    }[];
  }[];
}

function staleVersionsOf({ items = [] }: GroupList): string[] {
  return items.flatMap(({ metadata: { name: group = "" }, versions }) =>
    versions.filter(({ freshness }) => freshness === "Stale").map(({ version }) => `${group}/${version}`),
  );
}

function deletableKinds({ items = [] }: GroupList): ResourceType[] {
  return items.flatMap(({ metadata: { name: group = "" }, versions }) => {
    const kinds = new Map<string, ResourceType>();
    for (const { version, freshness, resources = [] } of versions) {
      if (freshness === "Stale") continue;
      for (const { resource, responseKind, scope, verbs } of resources) {
        const isDeletable = verbs.includes("delete") && verbs.includes("watch");
        // These are the core group's Events under another name.
        if (!isDeletable || kinds.has(resource) || group === "events.k8s.io") continue;
        kinds.set(resource, { group, version, kind: responseKind?.kind ?? "", plural: resource, scope });
      }
    }
    return [...kinds.values()];
  });
}
