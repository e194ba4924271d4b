import type { ResourceType } from "@keelson/api-machinery";
import type { Transport } from "@keelson/api-machinery/transport";
import type { Clock } from "@keelson/api-machinery/time";
import { type Client, createClient, createHttpTransport, inlineConnection } from "@keelson/client";
import type { Logger, Request } from "@keelson/controller";
import { WatchSet } from "../watching/watch-set.ts";
import { KindDiscovery } from "./kind-discovery.ts";
import { limitLists } from "./limit-lists.ts";

/** Maximum length of a response from another cluster. */
const maxBodyBytes = 32 * 1024 * 1024;
/** Maximum length of all pages of a list from another cluster. */
const maxListBytes = 64 * 1024 * 1024;
/** Maximum length of a watch event from another cluster. */
const maxLineBytes = 4 * 1024 * 1024;
/** Maximum number of objects of a kind in a namespace of another cluster. */
const maxObjects = 20_000;
const maxConnections = 8;
const requestTimeoutMs = 30_000;

/** Options of {@link openCluster}. */
export interface ClusterConnectionOptions {
  readonly kubeconfig: string;
  /** Names the kubeconfig in messages, such as `Secret default/far`. */
  readonly source: string;
  readonly fieldManager: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when an object changed that this request follows. */
  readonly wake: (request: Request) => void;
  /** Called when the cluster may serve other kinds than before. */
  readonly onKindsChange: () => void;
}

/**
 * A connection to another cluster, with the permissions of its kubeconfig. The cluster is not trusted: what it sends is limited in size.
 */
export class ClusterConnection {
  readonly client: Client;
  readonly watches: WatchSet;
  readonly #kinds: KindDiscovery;
  readonly #stop = new AbortController();

  constructor(transport: Transport, options: Omit<ClusterConnectionOptions, "kubeconfig" | "source">) {
    const { fieldManager, clock, log, wake, onKindsChange } = options;
    this.client = createClient({ transport: limitLists(transport, maxListBytes), fieldManager, clock });
    this.watches = new WatchSet({ client: this.client, clock, log, wake, maxObjects });
    this.#kinds = new KindDiscovery({ transport, clock, signal: this.#stop.signal, onChange: onKindsChange });
  }

  /** The resource of a kind; undefined if it is not served, or not known yet. */
  readonly mapKind = (apiVersion: string, kind: string): ResourceType | undefined => this.#kinds.resourceOf(apiVersion, kind);

  /** Reads API versions, so that {@link mapKind} knows their kinds. **Errors**: rejects if the cluster cannot be reached. */
  discover(apiVersions: readonly string[]): Promise<void> {
    return this.#kinds.read(apiVersions);
  }

  /** Closes the connection and everything that uses it. */
  close(): void {
    this.#stop.abort();
    this.watches.stop();
    void this.client.close().catch(() => {});
  }
}

/**
 * Opens a connection with an untrusted kubeconfig. Sends no request.
 *
 * **Errors**: KubeconfigError with the source and the field.
 */
export async function openCluster({ kubeconfig, source, ...options }: ClusterConnectionOptions): Promise<ClusterConnection> {
  const { transport } = await inlineConnection(kubeconfig, { source, clock: options.clock });
  const limits = { maxBodyBytes, maxLineBytes, maxConnections, requestTimeoutMs };
  return new ClusterConnection(createHttpTransport({ ...transport, ...limits }), options);
}
