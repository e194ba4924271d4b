import { getServers } from "node:dns";
import {
  type DeepReadonly,
  isAlreadyExists,
  isStatusError,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import { EndpointSlice, type EndpointSliceObject, Service, type ServiceObject } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import type { NetworkNames } from "../pod-network/network-names.ts";
import { startDnsServer } from "./dns-server.ts";
import { NameIndex } from "./name-index.ts";

/** Options of {@link startClusterDns}. */
export interface ClusterDnsOptions {
  /** With the permissions of kube-proxy. */
  readonly client: Client;
  /** Creates the Service and its endpoints. */
  readonly admin: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly names: NetworkNames;
}

/** The running DNS server of a Pod network. */
export interface ClusterDns {
  /** The address of its Service. */
  readonly address: string;
  /** Where the server listens at the node's address. */
  readonly udpPort: number;
  readonly tcpPort: number;
  stop(): Promise<void>;
}

const service = { namespace: "kube-system", name: "kube-dns" } as const;
const labels = { "k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS" } as const;

/**
 * Starts the DNS server of a Pod network: it listens on the node's address, and Service `kube-system/kube-dns` leads to it. A Service of
 * this name with a selector is that of another DNS server, which Pods use instead.
 */
export async function startClusterDns(options: ClusterDnsOptions): Promise<ClusterDns> {
  const { admin, clock, names } = options;
  const followed = new FollowedNames(options);
  const server = await startDnsServer({
    address: names.nodeAddress,
    clients: names.pods,
    networks: names,
    index: () => followed.index,
    upstreams: getServers,
    clock,
  }).catch(async (error: unknown) => {
    await followed.stop();
    throw error;
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    await followed.stop();
  };
  try {
    const { spec } = await ensureService(admin, `${names.services.split(".").slice(0, 2).join(".")}.0.10`);
    if (spec?.selector === undefined) await applyEndpoints(admin, names.nodeAddress, server);
    const { udpPort, tcpPort } = server;
    return { address: spec?.clusterIP ?? "", udpPort, tcpPort, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The Service, created if missing, if possible with the address that cluster DNS has by convention. */
async function ensureService(admin: Client, clusterIP: string): Promise<DeepReadonly<ServiceObject>> {
  const create = (address: { readonly clusterIP?: string }): Promise<DeepReadonly<ServiceObject>> =>
    admin.create(Service, {
      metadata: { ...service, labels },
      spec: {
        ...address,
        ports: [
          { name: "dns", port: 53, protocol: "UDP" },
          { name: "dns-tcp", port: 53, protocol: "TCP" },
        ],
      },
    });
  try {
    // Another Service may have the address already.
    return await create({ clusterIP }).catch((error: unknown) => {
      if (!isStatusError(error, "Invalid")) throw error;
      return create({});
    });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    return admin.get(Service, service);
  }
}

async function applyEndpoints(
  admin: Client,
  address: string,
  { udpPort, tcpPort }: { readonly udpPort: number; readonly tcpPort: number },
): Promise<void> {
  await admin.apply(
    EndpointSlice,
    {
      metadata: {
        ...service,
        labels: { ...labels, "kubernetes.io/service-name": service.name, "endpointslice.kubernetes.io/managed-by": "keelson" },
      },
      addressType: "IPv4",
      ports: [
        { name: "dns", port: udpPort, protocol: "UDP" },
        { name: "dns-tcp", port: tcpPort, protocol: "TCP" },
      ],
      endpoints: [{ addresses: [address], conditions: { ready: true } }],
    },
    { force: true },
  );
}

/** The names of Services and endpoints, indexed again by the first query after a change. */
class FollowedNames {
  readonly #services = new Map<string, DeepReadonly<ServiceObject>>();
  readonly #slices = new Map<string, DeepReadonly<EndpointSliceObject>>();
  readonly #stopping = new AbortController();
  readonly #runs: readonly Promise<void>[];
  #index: NameIndex | undefined;

  constructor(options: ClusterDnsOptions) {
    this.#runs = [this.#follow(options, Service, this.#services), this.#follow(options, EndpointSlice, this.#slices)];
  }

  get index(): NameIndex {
    this.#index ??= new NameIndex({ services: this.#services.values(), slices: this.#slices.values() });
    return this.#index;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled(this.#runs);
  }

  #follow<T extends KubernetesObject>(
    { client, clock, random, log }: ClusterDnsOptions,
    type: ResourceType<T>,
    map: Map<string, DeepReadonly<T>>,
  ): Promise<void> {
    const onEffect = (effect: StoreEffect): void => {
      keep(map, effect);
      this.#index = undefined;
    };
    return new Informer({ client, type, clock, random, log, onEffect }).run(this.#stopping.signal);
  }
}

function keep<T extends KubernetesObject>(map: Map<string, DeepReadonly<T>>, effect: StoreEffect): void {
  const key = ({ metadata }: DeepReadonly<KubernetesObject>): string => `${metadata.namespace ?? ""}/${metadata.name ?? ""}`;
  if (effect.kind === "replace") {
    map.clear();
    for (const object of effect.objects) map.set(key(object), object as DeepReadonly<T>);
  } else if (effect.kind === "put") map.set(key(effect.object), effect.object as DeepReadonly<T>);
  else map.delete(key(effect.object));
}
