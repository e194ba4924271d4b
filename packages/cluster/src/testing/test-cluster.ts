import { CustomResourceDefinition, Pod } from "@keelson/api-machinery/kinds";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import { ignoreNotFound, type KubernetesObject } from "@keelson/api-machinery";
import type { Transport } from "@keelson/api-machinery/transport";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { join } from "node:path";
import type { Kubelet, KubeletOptions } from "../kubelet/kubelet.ts";
import type { PodHandler } from "../kubelet/pod-handlers.ts";
import { startCluster } from "../start-cluster.ts";
import { type ServedKinds, storedKinds } from "../stored-kinds.ts";
import { reserveAddressBlock } from "../address-block.ts";

/** A user of the API with its groups. */
interface User {
  readonly username: string;
  readonly groups: readonly string[];
}

/** A served API. The result of `serveApi` of `@keelson/apiserver` is one. */
export interface ClusterApi {
  readonly server: { readonly resources: ServedKinds; transport(options?: { readonly user?: User }): Transport };
  /** Path of a kubeconfig with full permissions. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}

/** Options of {@link startTestCluster}. */
export interface TestClusterOptions {
  /** Serves the API with these handlers for subresources of Pods, storing its data in `dataDir`. */
  readonly serve: (options: {
    readonly dataDir: string;
    readonly subresources: Readonly<Record<string, PodHandler>>;
  }) => Promise<ClusterApi>;
  /** Directory of the cluster. A cluster started again with the same directory resumes. */
  readonly dataDir: string;
  /** CustomResourceDefinitions to install, with their established condition awaited. */
  readonly crds?: readonly KubernetesObject[];
  /** Options of the node in addition to the defaults. */
  readonly node?: Partial<Omit<KubeletOptions, "client" | "dataDir">>;
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** 0 (inclusive) to 1 (exclusive). Default: `Math.random`. */
  readonly random?: () => number;
}

/** Everything that `keelson up` runs except operators: API server, built-in controllers and a node. */
export interface TestCluster extends AsyncDisposable {
  readonly kubeconfig: string;
  /** A client with full permissions. */
  readonly client: Client;
  readonly kubelet: Kubelet;
  /** A client with the permissions of this user. */
  as(user: User): Client;
  /** Stops all components. Programs of Pods keep running, as they do after `keelson up` stops. */
  stop(): Promise<void>;
  /** Deletes all Pods, waits until their programs have exited, and stops. */
  shutDown(): Promise<void>;
}

/**
 * Starts a cluster for an end-to-end test: Pods become real programs of this machine.
 *
 * **Example**
 *
 *     const serve = (options) => serveApi({ ...options, clock: systemClock, random: systemRandom, port: 0 });
 *     await using cluster = await startTestCluster({ serve, dataDir, crds: [Robot.crd] });
 */
export async function startTestCluster(options: TestClusterOptions): Promise<TestCluster> {
  const { clock = systemClock, random = Math.random, dataDir, crds = [] } = options;
  const [{ startKubelet }, { podHandlers }] = await Promise.all([
    import("../kubelet/kubelet.ts"),
    import("../kubelet/pod-handlers.ts"),
  ]);
  const common = { clock, random, log: silentLogger };
  const running: { client?: Client; kubelet?: Kubelet } = {};
  const subresources = podHandlers({
    client: () => running.client,
    kubelet: () => running.kubelet,
    now: () => clock.now(),
  });
  const api = await options.serve({ dataDir: join(dataDir, "api"), subresources });
  const client = createClient({ transport: api.server.transport(), fieldManager: "test" });
  running.client = client;
  for (const crd of crds) await install(client, crd);
  const cluster = await startCluster({ client, kinds: storedKinds(api.server.resources), ...common });
  const pods = await reserveAddressBlock(dataDir);
  // Pods that keep running after a stop listen in this block.
  await pods.record();
  const kubelet = await startKubelet({
    ...{ client, dataDir: join(dataDir, "node"), podNetwork: pods.podNetwork },
    ...common,
    ...options.node,
  });
  running.kubelet = kubelet;
  const stop = async (): Promise<void> => {
    await kubelet.stop();
    await cluster.stop();
    await api.close();
    await pods.release();
  };
  return {
    kubeconfig: api.kubeconfig,
    client,
    kubelet,
    as: (user) => createClient({ transport: api.server.transport({ user }), fieldManager: "test" }),
    stop,
    async shutDown() {
      await deletePods(client);
      await stop();
    },
    [Symbol.asyncDispose]: stop,
  };
}

async function install(client: Client, crd: KubernetesObject): Promise<void> {
  const { name = "" } = crd.metadata;
  const watch = await client.watch(CustomResourceDefinition, { fieldSelector: `metadata.name=${name}` });
  try {
    const { metadata, spec } = crd as typeof crd & { readonly spec: never };
    await client.apply(CustomResourceDefinition, { metadata: { name: metadata.name ?? "" }, spec }, { fieldManager: "test" });
    const isEstablished = ({ status }: { status?: { conditions?: readonly { type: string; status: string }[] } }): boolean =>
      status?.conditions?.some((condition) => condition.type === "Established" && condition.status === "True") ?? false;
    if (isEstablished(await client.get(CustomResourceDefinition, { name }))) return;
    for await (const { object } of watch) if (isEstablished(object)) return;
  } finally {
    watch.close();
  }
}

async function deletePods(client: Client): Promise<void> {
  const watch = await client.watch(Pod, {});
  try {
    const left = new Set<string>();
    for (const { metadata } of (await client.list(Pod)).items) {
      left.add(metadata.uid ?? "");
      // A controller may delete it at the same time.
      await ignoreNotFound(
        client.delete(Pod, { namespace: metadata.namespace, name: metadata.name ?? "" }, { gracePeriodSeconds: 1 }),
      );
    }
    if (left.size === 0) return;
    for await (const { type, object } of watch) {
      if (type === "DELETED" && left.delete(object.metadata.uid ?? "") && left.size === 0) return;
    }
  } finally {
    watch.close();
  }
}
