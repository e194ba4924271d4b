import type { Clock } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { createManager, type Logger } from "@keelson/controller";
import { startGarbageCollector } from "./garbage-collector/garbage-collector.ts";
import type { KindSource } from "./garbage-collector/object-monitor.ts";
import { startNamespaceController } from "./namespace/namespace-controller.ts";
import { serviceAccountController } from "./service-account-controller.ts";

/** Options of {@link startCluster}. */
export interface ClusterOptions {
  /** With the rights of kube-controller-manager. */
  readonly client: Client;
  /** The kinds that the API server serves. */
  readonly kinds: KindSource;
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). Default: `Math.random`. */
  readonly random?: () => number;
  readonly log: Logger;
}

/** The running controllers of a cluster. */
export interface Cluster {
  /** What runs, for people. */
  readonly description: string;
  stop(): Promise<void>;
}

/** Starts what kube-controller-manager does, as far as one machine needs it: garbage collection, namespaces, service accounts. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { client, clock, log } = options;
  const random = options.random ?? Math.random;
  const collector = startGarbageCollector({
    client,
    kinds: options.kinds,
    clock,
    random,
    log: log.child({ controller: "garbage-collector" }),
  });
  const namespaces = startNamespaceController({
    client,
    collector,
    clock,
    random,
    log: log.child({ controller: "namespace" }),
  });
  const manager = createManager({
    name: "kube-controller-manager",
    client,
    clock,
    logger: log,
    controllers: [serviceAccountController],
  });
  await manager.start();
  return {
    description: "garbage collector, namespaces, service accounts",
    async stop() {
      await manager.stop();
      await namespaces.stop();
      await collector.stop();
    },
  };
}
