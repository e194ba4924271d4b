import type { Clock } from "@keelson/api-machinery/time";
import type { Logger, Request } from "@keelson/controller";
import { type ClusterConnection, openCluster } from "./cluster-connection.ts";

/** Options of {@link ClusterConnections}. */
export interface ClusterConnectionsOptions {
  readonly fieldManager: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Reconciles a test. */
  readonly wake: (request: Request) => void;
}

interface Entry {
  readonly connection: Promise<ClusterConnection>;
  readonly followers: Map<string, Request>;
}

/** A kubeconfig and where it comes from. */
export interface KubeconfigText {
  /** For messages, such as `Secret default/far`. */
  readonly source: string;
  readonly text: string;
}

/** The connections to other clusters. Tests with the same kubeconfig share one, which is closed when the last of them leaves it. */
export class ClusterConnections {
  readonly #options: ClusterConnectionsOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: ClusterConnectionsOptions) {
    this.#options = options;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#entries.size;
  }

  /**
   * Connects a test with these kubeconfigs, and ends its connections with others. Resolves to a connection per kubeconfig, or to the reason
   * why it is invalid.
   */
  async follow(request: Request, kubeconfigs: readonly KubeconfigText[]): Promise<readonly (ClusterConnection | Error)[]> {
    const id = `${request.namespace ?? ""}/${request.name}`;
    const keys = new Set(kubeconfigs.map(keyOf));
    for (const [key, entry] of this.#entries) if (!keys.has(key)) this.#leave(key, entry, id);
    const entries = kubeconfigs.map((kubeconfig) => {
      const key = keyOf(kubeconfig);
      const entry = this.#entries.get(key) ?? this.#open(key, kubeconfig);
      entry.followers.set(id, request);
      return entry;
    });
    return Promise.all(entries.map(({ connection }) => connection.catch((error: unknown) => error as Error)));
  }

  /** Closes all connections. */
  stop(): void {
    for (const [key, { connection }] of this.#entries) {
      this.#entries.delete(key);
      close(connection);
    }
  }

  #open(key: string, { source, text }: KubeconfigText): Entry {
    const { wake, ...options } = this.#options;
    const followers = new Map<string, Request>();
    const onKindsChange = (): void => {
      for (const request of followers.values()) wake(request);
    };
    const entry = { connection: openCluster({ kubeconfig: text, source, wake, onKindsChange, ...options }), followers };
    this.#entries.set(key, entry);
    return entry;
  }

  #leave(key: string, { followers, connection }: Entry, id: string): void {
    const request = followers.get(id);
    if (request === undefined) return;
    followers.delete(id);
    if (followers.size > 0) {
      void connection.then(({ watches }) => watches.follow(request, [])).catch(() => {});
      return;
    }
    this.#entries.delete(key);
    close(connection);
  }
}

// The source is part of the key, because it is part of messages. JSON keeps the parts apart.
const keyOf = ({ source, text }: KubeconfigText): string => JSON.stringify([source, text]);

/** Closes a connection. One that could not be opened has nothing to close. */
function close(connection: Promise<ClusterConnection>): void {
  void connection.then((each) => each.close()).catch(() => {});
}
