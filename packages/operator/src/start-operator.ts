import { type Clock, sleep, systemClock } from "@keelson/api-machinery/time";
import { type Client, isTransportError } from "@keelson/client";
import { createManager, type Leadership, type Logger, type Manager, type Metrics, silentLogger } from "@keelson/controller";
import type { FlagValues } from "./flags.ts";
import type { Operator, OperatorContext, RunningServer, ServerDefinition } from "./operator.ts";
import { OperatorServices } from "./operator-services.ts";

/** The last wait before a server that lost its connection is started again: 7 s in all. */
const longestStartDelayMs = 4_000;

/** Options of {@link startOperator}. */
export interface StartOperatorOptions {
  readonly operator: Operator;
  /** A client with the operator's rights. It is not closed. */
  readonly client: Client;
  /** A folder of the operator's own that survives restarts. */
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
  readonly gracefulShutdownTimeoutMs?: number;
  readonly metrics?: Metrics;
  /** See `ManagerOptions.onLeadership`. */
  readonly onLeadership?: (leadership: Leadership) => void;
  /** Breaks the start off. */
  readonly signal?: AbortSignal;
}

/** An operator that runs. */
export interface RunningOperator {
  /** What its servers say of themselves, one line each; those that wait for the lease add theirs when they start. */
  readonly descriptions: readonly string[];
  /** Addresses of its servers by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** See `Manager.reconciles`. */
  readonly reconciles: Manager["reconciles"];
  /** Settles when it has stopped; rejects when it lost its lease or failed. */
  readonly done: Promise<void>;
  /** Stops controllers, then servers (the last one first), then caches. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts an operator: its caches, then its servers, then its controllers. With leader election it answers when the caches and
 * the servers that every replica runs are up; the rest follows when the lease is held.
 *
 * **Errors**: rejects when a cache does not sync or a server does not start; what had started is stopped again. A server that only
 * lost its connection to the API is started again first, a few times.
 */
export async function startOperator(options: StartOperatorOptions): Promise<RunningOperator> {
  const { operator, client, dataDir, flags = {}, clock = systemClock, logger = silentLogger, signal } = options;
  const { random = Math.random } = options;
  const log = logger.child({ operator: operator.name });
  const shared: OperatorContext = { services: new OperatorServices(), dataDir, flags, clock, random, log };
  const running: RunningServer[] = [];
  const descriptions: string[] = [];
  const endpoints: Record<string, string> = {};

  /** Tries again where only the connection was lost, for less time than a lease is kept: it is no reason to end. */
  const started = async (definition: ServerDefinition, stop: AbortSignal | undefined): Promise<RunningServer | undefined> => {
    const child = log.child({ server: definition.name });
    const { cache, onChange } = manager;
    for (let delayMs = 1_000; ; delayMs *= 2) {
      try {
        return await definition.start({ ...shared, client, cache, onChange, log: child });
      } catch (error) {
        if (!isTransportError(error) || delayMs > longestStartDelayMs) throw error;
        child.warn({ err: error }, "a server did not start; it is tried again");
        await sleep(clock, delayMs, stop).catch(() => {});
        if (stop?.aborted) return undefined;
      }
    }
  };
  const startServer = async (definition: ServerDefinition, stop: AbortSignal | undefined): Promise<void> => {
    const server = await started(definition, stop);
    if (server === undefined) return;
    running.push(server);
    descriptions.push(server.description);
    Object.assign(endpoints, server.endpoints);
  };
  const startServers = async (needsLease: boolean, stop: AbortSignal | undefined): Promise<void> => {
    for (const definition of operator.servers) {
      if ((definition.needsLeaderElection ?? false) === needsLease) await startServer(definition, stop);
    }
  };
  const stopServers = async (): Promise<void> => {
    for (let server = running.pop(); server !== undefined; server = running.pop()) {
      try {
        await server.stop();
      } catch (error) {
        log.error({ err: error, server: server.description }, "a server did not stop cleanly");
      }
    }
  };

  const manager: Manager = createManager({
    client,
    clock,
    random,
    logger: log,
    name: operator.name,
    controllers: operator.controllers(shared),
    reads: operator.servers.flatMap((server) => server.reads ?? []),
    beforeControllers: (stop) => startServers(true, stop),
    afterControllers: stopServers,
    ...(options.leaderElection === undefined ? {} : { leaderElection: options.leaderElection }),
    ...(options.namespaces === undefined ? {} : { namespaces: options.namespaces }),
    ...(options.gracefulShutdownTimeoutMs === undefined
      ? {}
      : { gracefulShutdownTimeoutMs: options.gracefulShutdownTimeoutMs }),
    ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
    ...(options.onLeadership === undefined ? {} : { onLeadership: options.onLeadership }),
  });

  try {
    await manager.startCaches(signal);
    await startServers(false, signal);
    await manager.start(signal);
  } catch (error) {
    await manager.stop();
    throw error;
  }
  return {
    descriptions,
    endpoints,
    reconciles: (filter) => manager.reconciles(filter),
    done: manager.done,
    stop: () => manager.stop(),
    [Symbol.asyncDispose]: () => manager.stop(),
  };
}
