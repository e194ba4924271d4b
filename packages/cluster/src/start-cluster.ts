import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type CacheOptions, createManager, type Logger } from "@keelson/controller";
import { type CertificateSigner, createSigningController } from "./certificates/signing-controller.ts";
import { startGarbageCollector } from "./garbage-collector/garbage-collector.ts";
import type { KindSource } from "./garbage-collector/object-monitor.ts";
import { startNamespaceController } from "./namespace/namespace-controller.ts";
import { ensureStandardClass } from "./persistent-volume/standard-class.ts";
import { createVolumeControllers } from "./persistent-volume/volume-controllers.ts";
import { startRootCaPublisher } from "./root-ca/root-ca-publisher.ts";
import { serviceAccountController } from "./service-account-controller.ts";
import type { PodGarbageOptions } from "./pod-gc/pod-gc.ts";
import { createWorkloadControllers } from "./workload-controllers.ts";

/** Options of {@link startCluster}. */
export interface ClusterOptions {
  /** With the permissions of `controllersUser`. */
  readonly client: Client;
  /** With the permissions of `collectorUser`. Default: `client`. */
  readonly collector?: Client;
  /** The kinds that the API server serves. */
  readonly kinds: KindSource;
  /** See `CacheOptions.initialList`. A `stream` takes half of the requests of `pages`. */
  readonly initialList?: CacheOptions["initialList"];
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). Default: `Math.random`. */
  readonly random?: () => number;
  readonly log: Logger;
  /** The API server's CA in PEM, published as ConfigMap `kube-root-ca.crt` in every namespace. Default: not published. */
  readonly rootCa?: string;
  /** Signs approved CertificateSigningRequests. Default: they are not signed. */
  readonly certificateSigner?: CertificateSigner;
  /**
   * Directory for the volumes that StorageClass `standard` provisions. Default: none; claims bind only to PersistentVolumes that
   * exist.
   */
  readonly volumesDirectory?: string;
  /** When terminated Pods are deleted. */
  readonly podGarbage?: PodGarbageOptions;
}

/** The running controllers of a cluster. */
export interface Cluster {
  /** A summary for users. */
  readonly description: string;
  stop(): Promise<void>;
}

/**
 * Starts kube-controller-manager's controllers and the scheduler: garbage collection, namespaces, service accounts, workloads,
 * endpoints, volumes and Pod placement.
 */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { client, collector: collecting = client, clock, log } = options;
  const random = options.random ?? Math.random;
  const cache = options.initialList === undefined ? {} : { initialList: options.initialList };
  const collector = startGarbageCollector({
    client: collecting,
    kinds: options.kinds,
    ...cache,
    clock,
    random,
    log: log.child({ controller: "garbage-collector" }),
  });
  const namespaces = startNamespaceController({
    client: collecting,
    collector,
    clock,
    random,
    log: log.child({ controller: "namespace" }),
  });
  const rootCa =
    options.rootCa === undefined
      ? undefined
      : startRootCaPublisher({
          client,
          rootCa: options.rootCa,
          clock,
          random,
          log: log.child({ controller: "root-ca-certificate-publisher" }),
        });
  const volumes = options.volumesDirectory === undefined ? undefined : { directory: options.volumesDirectory };
  const manager = createManager({
    name: "kube-controller-manager",
    client,
    cache,
    clock,
    logger: log,
    controllers: [
      serviceAccountController,
      ...createWorkloadControllers(options.podGarbage),
      ...(volumes ? createVolumeControllers(volumes) : []),
      ...(options.certificateSigner ? [createSigningController(options.certificateSigner)] : []),
    ],
  });
  if (volumes) await ensureStandardClass(client);
  await manager.start();
  return {
    description: "garbage collector, namespaces, service accounts, workloads, endpoints, volumes, scheduler",
    async stop() {
      await manager.stop();
      await rootCa?.stop();
      await namespaces.stop();
      await collector.stop();
    },
  };
}
