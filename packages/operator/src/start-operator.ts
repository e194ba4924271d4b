import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import {
  type CacheOptions,
  createManager,
  type Leadership,
  type Logger,
  type Manager,
  silentLogger,
} from "@keelson/controller";
import type { Metrics } from "@keelson/controller/metrics";
import { createWebhooks, type Webhooks, type WebhookService } from "@keelson/controller/webhooks";
import type { FlagValues } from "./flags.ts";
import type { Operator, OperatorContext } from "./operator.ts";
import { stateMetrics } from "./monitoring/operator-monitoring.ts";
import { OperatorServers } from "./operator-servers.ts";
import { OperatorServices } from "./operator-services.ts";
import { webhookNameOf } from "./runtime-rules.ts";

/** Webhooks behind a Service. */
export interface ServedWebhooks {
  readonly service: WebhookService;
  /** Address to listen on. Default: all. */
  readonly host?: string;
  /** Port to listen on: the target port of the Service. Default 9443. */
  readonly port?: number;
  /** See `WebhooksOptions.clientAuthority`. */
  readonly clientAuthority?: string;
}

/** Webhooks at an address of this machine. */
export interface LocalWebhooks {
  /** See `WebhooksOptions.clientAuthority`. */
  readonly clientAuthority: string;
}

/** Options of {@link startOperator}. */
export interface StartOperatorOptions {
  readonly operator: Operator;
  /** A client with the operator's permissions. It is not closed. */
  readonly client: Client;
  /** The operator's own directory, which survives restarts. */
  readonly dataDir: string;
  /** Values of its servers' flags. */
  readonly flags?: FlagValues;
  readonly clock?: Clock;
  /** 0 (inclusive) to 1 (exclusive). Default: `Math.random`. */
  readonly random?: () => number;
  readonly logger?: Logger;
  /** Runs controllers, and servers that need it, only while holding this lease. Default: no election. */
  readonly leaderElection?: { readonly namespace: string; readonly name: string; readonly identity?: string };
  readonly namespaces?: readonly string[];
  /** See `CacheOptions.initialList`. */
  readonly initialList?: CacheOptions["initialList"];
  readonly gracefulShutdownTimeoutMs?: number;
  readonly metrics?: Metrics;
  /**
   * How the API server reaches the operator's webhooks: at an address of this machine, or by a Service. Default: they are not served.
   */
  readonly webhooks?: LocalWebhooks | ServedWebhooks;
  /** See `ManagerOptions.onLeadership`. */
  readonly onLeadership?: (leadership: Leadership) => void;
  /** Cancels the start. */
  readonly signal?: AbortSignal;
}

/** A running operator. */
export interface RunningOperator {
  /** One line per running server. Servers that need the lease are added when they start. */
  readonly descriptions: readonly string[];
  /** Addresses of its servers by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** See `Manager.reconciles`. */
  readonly reconciles: Manager["reconciles"];
  /** Resolves when it has stopped; rejects if it lost its lease or failed. */
  readonly done: Promise<void>;
  /** Stops controllers, then servers (the last one first), then caches. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts an operator: its caches, then its servers, then its controllers. With leader election it resolves when the caches and
 * the servers that every replica runs have started; the rest starts when the lease is acquired.
 *
 * **Errors**: rejects if a cache does not sync or a server does not start, after stopping what has started. If a server loses its
 * connection to the API, its start is retried for 10 s.
 */
export async function startOperator(options: StartOperatorOptions): Promise<RunningOperator> {
  const { operator, client, dataDir, flags = {}, clock = systemClock, random = Math.random, signal } = options;
  const log = (options.logger ?? silentLogger).child({ operator: operator.name });
  const context: OperatorContext = {
    ...{ services: new OperatorServices(), dataDir, flags, clock, random, log },
    collectMetrics: (read) => options.metrics?.collect?.(read) ?? (() => undefined),
  };
  const { metrics: gauges, reads = [] } = operator.monitoring ?? {};
  const servers = new OperatorServers(operator.servers, client, context);
  let stopMetrics = (): void => {};
  const webhooks = webhooksOf(options);
  const manager: Manager = createManager({
    client,
    clock,
    random,
    logger: log,
    name: operator.name,
    controllers: operator.controllers(context),
    reads: [...operator.servers.flatMap((server) => server.reads ?? []), ...reads],
    beforeControllers: async (stop) => {
      await servers.start(manager, true, stop);
      if (gauges !== undefined) stopMetrics = context.collectMetrics(() => stateMetrics(gauges, manager.cache, clock.now()));
    },
    afterControllers: () => {
      stopMetrics();
      return servers.stop();
    },
    ...(webhooks === undefined ? {} : { webhooks }),
    ...(options.leaderElection === undefined ? {} : { leaderElection: options.leaderElection }),
    ...(options.initialList === undefined ? {} : { cache: { initialList: options.initialList } }),
    ...(options.namespaces === undefined ? {} : { namespaces: options.namespaces }),
    ...(options.gracefulShutdownTimeoutMs === undefined
      ? {}
      : { gracefulShutdownTimeoutMs: options.gracefulShutdownTimeoutMs }),
    ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
    ...(options.onLeadership === undefined ? {} : { onLeadership: options.onLeadership }),
  });
  try {
    await manager.startCaches(signal);
    await servers.start(manager, false);
    await manager.start(signal);
  } catch (error) {
    await manager.stop();
    throw error;
  }
  return {
    get descriptions() {
      const port = webhooks?.port;
      return [...(port === undefined ? [] : [describeWebhooks(options, port)]), ...servers.descriptions];
    },
    endpoints: servers.endpoints,
    reconciles: (filter) => manager.reconciles(filter),
    done: manager.done,
    stop: () => manager.stop(),
    [Symbol.asyncDispose]: () => manager.stop(),
  };
}

function webhooksOf({ operator, webhooks: address }: StartOperatorOptions): Webhooks | undefined {
  const { webhooks = [] } = operator;
  if (webhooks.length === 0 || address === undefined) return undefined;
  return createWebhooks({ webhooks, configurationName: webhookNameOf(operator), ...address });
}

function describeWebhooks({ webhooks }: StartOperatorOptions, port: number): string {
  const { host = "0.0.0.0" } = webhooks !== undefined && "service" in webhooks ? webhooks : { host: "127.0.0.1" };
  return `admission webhooks on https://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
