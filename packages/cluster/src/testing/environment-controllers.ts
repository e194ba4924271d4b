import type { Clock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { startGarbageCollector } from "../garbage-collector/garbage-collector.ts";
import { startNamespaceController } from "../namespace/namespace-controller.ts";
import { startCluster } from "../start-cluster.ts";
import { type ServedKinds, storedKinds } from "../stored-kinds.ts";

/** An in-process API server: a `TestEnvironment` of `@keelson/apiserver/testing` is one. */
export interface ControllerHost {
  readonly resources: ServedKinds;
  readonly clock: Clock;
  /** A transport with full permissions. */
  transport(): Transport;
}

/**
 * Deletes dependents of deleted objects and empties deleted namespaces, as kube-controller-manager does.
 *
 * **Example**
 *
 *     await using environment = await startTestEnvironment({ controllers: [garbageCollection] });
 */
export async function garbageCollection(host: ControllerHost): Promise<{ stop(): Promise<void> }> {
  const options = optionsFor(host);
  const collector = startGarbageCollector(options);
  const namespaces = startNamespaceController({ ...options, collector });
  return {
    async stop() {
      await namespaces.stop();
      await collector.stop();
    },
  };
}

/**
 * Runs everything that {@link startCluster} starts, including {@link garbageCollection}. Deployments become Pods, which stay `Pending`
 * until a node exists.
 */
export function clusterControllers(host: ControllerHost): Promise<{ stop(): Promise<void> }> {
  return startCluster(optionsFor(host));
}

function optionsFor({ transport, resources, clock }: ControllerHost) {
  return {
    client: createClient({ transport: transport(), fieldManager: "kube-controller-manager" }),
    kinds: storedKinds(resources),
    clock,
    random: Math.random,
    log: silentLogger,
  };
}
