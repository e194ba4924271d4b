import { chmod, readFile } from "node:fs/promises";
import { join } from "node:path";
import { ignoreNotFound, isStatusError, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import { Node } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import {
  ensureRuntimeClasses,
  issueTokensBy,
  type Kubelet,
  machineName,
  openPodRuntimes,
  podHandlers,
  type PodRuntimes,
  startKubelet,
  startNodeServer,
  type Taint,
} from "@keelson/cluster";
import { type Client, type Connection, createClient, createHttpTransport, type HttpTransportOptions } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { ClusterIdentities } from "@keelson/controller/access";
import { defaultContainerdSocket, openUnpackedImages } from "@keelson/execution";
import { writeFileAtomic } from "@keelson/execution/files";
import { imagesFolder, sandboxes } from "@keelson/sandboxes";
import { UsageError } from "@keelson/operator/flags";
import { lockDataFolder } from "../local/data-folder-lock.ts";
import type { PodRuntimeName } from "../local/pod-runtime-flag.ts";
import { requirePodRuntime } from "../local/require-pod-runtime.ts";
import { addressTowards, isLoopback } from "./node-address.ts";
import { requestNodeCertificate } from "./node-certificate.ts";
import { NodeCredentials } from "./node-credentials.ts";
import { NodeError } from "./node-error.ts";
import { servingCertificate } from "./serving-certificate.ts";

/** Options of {@link startNode}. */
export interface NodeOptions {
  /** The cluster, with the rights of the user who joins the node. */
  readonly connection: Connection;
  readonly dataDir: string;
  /** Default: the name of the node that the connection belongs to, otherwise this machine's host name. */
  readonly name: string | undefined;
  /** Default: this machine's address on the way to the API server. */
  readonly address: string | undefined;
  /** Port of the kubelet's HTTPS API. 0 picks a free one. */
  readonly port: number;
  readonly podRuntime: PodRuntimeName;
  /** Socket of a containerd that must respond. Default: the standard socket, if one responds. */
  readonly containerd: string | undefined;
  readonly taints: readonly Taint[];
  readonly log: Logger;
  /** Receives lines for the user. */
  readonly print: (line: string) => void;
  readonly signal: AbortSignal;
}

/** A machine that has joined a cluster. */
export interface RunningNode {
  /** Stops supervising. Programs of Pods keep running. */
  stop(): Promise<void>;
}

/** Label of the Nodes on which the RuntimeClasses of Keelson run. */
const nodeLabels = { "keelson.dev/node": "true" };

const runtimeNames = {
  process: "as programs of this machine",
  bubblewrap: "in bubblewrap",
  containerd: "in containerd",
} as const;

/**
 * Joins this machine to a cluster as a node. Its identity is `system:node:NAME`: that of the connection, or a certificate that the
 * cluster issues once and that is renewed from then on.
 *
 * **Errors**: {@link NodeError}, {@link UsageError} and those of the API. Nothing keeps running then.
 */
export async function startNode(options: NodeOptions): Promise<RunningNode> {
  const node = new JoinedNode(options);
  try {
    await node.start();
    return node;
  } catch (error) {
    await node.stop();
    throw error;
  }
}

class JoinedNode implements RunningNode {
  readonly #options: NodeOptions;
  readonly #stops: (() => Promise<void> | void)[] = [];

  constructor(options: NodeOptions) {
    this.#options = options;
  }

  async stop(): Promise<void> {
    for (let next = this.#stops.pop(); next !== undefined; next = this.#stops.pop()) await next();
  }

  async start(): Promise<void> {
    const { connection, dataDir, podRuntime, log, print } = this.#options;
    const lock = await lockDataFolder(dataDir, Math.random);
    this.#stops.push(() => lock.release());
    const user = this.#client(connection.transport);
    const { username } = await whoAmI(user);
    const { nodeName, isNode } = nameOf(username, this.#options.name);
    await claimName(user, nodeName, dataDir);
    const address = this.#options.address ?? (await addressTowards(connection.transport.server));
    const client = isNode ? user : await this.#nodeClient(user, nodeName);
    const runtimes = await this.#openRuntimes();
    requirePodRuntime(podRuntime, runtimes);
    await this.#publishRuntimes(user, runtimes);
    const port = await this.#startServer(client, nodeName, address, () => kubelet);
    const kubelet: Kubelet = await startKubelet({
      ...{ client, nodeName, runtimes, log, labels: nodeLabels, taints: this.#options.taints },
      dataDir: join(dataDir, "node"),
      defaultRuntime: podRuntime,
      clock: systemClock,
      random: Math.random,
      hostIP: address,
      sharesHostAddress: true,
      serverPort: port,
      // A node has no right to read them.
      followsEndpointSlices: false,
      apiServer: apiServerOf(connection.transport),
      issueToken: issueTokensBy(client),
    });
    this.#stops.push(() => kubelet.stop());
    print(`node ${nodeName} joined ${connection.transport.server}`);
    print(`address ${address}, kubelet API on port ${port}; Pods run ${runtimeNames[podRuntime]}`);
    if (isLoopback(address)) {
      print(
        `${address} is a loopback address, which API servers reject in Endpoints: Services cannot select Pods of this node; pass --address`,
      );
    }
  }

  #client(transport: HttpTransportOptions): Client {
    const client = createClient({ transport: createHttpTransport(transport), fieldManager: "kubelet", userAgent: "kubelet" });
    this.#stops.push(() => client.close());
    return client;
  }

  /** A client with the identity of the node. */
  async #nodeClient(user: Client, nodeName: string): Promise<Client> {
    const { connection, dataDir, log, print, signal } = this.#options;
    const folder = join(dataDir, "pki");
    const credentials = new NodeCredentials({ folder, nodeName, clock: systemClock, log });
    const isKnown = await credentials.load();
    const request = (client: Client): Promise<KeyPair> =>
      requestNodeCertificate({ client, nodeName, folder, clock: systemClock, print, signal });
    if (!isKnown) await credentials.replace(await request(user));
    const { token: _, impersonate: __, ...transport } = connection.transport;
    const client = this.#client({ ...transport, credentials });
    credentials.renewBy(() => request(client));
    this.#stops.push(() => credentials.stop());
    return client;
  }

  async #openRuntimes(): Promise<PodRuntimes> {
    const { dataDir, podRuntime, containerd, log } = this.#options;
    const imagesDir = join(dataDir, sandboxes.name);
    const unpacked = await openUnpackedImages(imagesFolder(imagesDir));
    // Programs of other users have their root file systems below.
    await chmod(imagesDir, 0o711);
    const isRoot = process.getuid?.() === 0;
    const runtimes = await openPodRuntimes({
      ...{ dataDir: join(dataDir, "node"), clock: systemClock, random: Math.random, unpacked, log },
      // Nothing in another cluster restricts who may use it.
      allowsProcess: podRuntime === "process",
      ...(containerd !== undefined ? { containerd } : isRoot ? { awaitedContainerd: defaultContainerdSocket } : {}),
    });
    this.#stops.push(() => runtimes.close());
    return runtimes;
  }

  /** Creates the RuntimeClasses if the user may. */
  async #publishRuntimes(user: Client, runtimes: PodRuntimes): Promise<void> {
    const { print } = this.#options;
    try {
      await ensureRuntimeClasses(user, runtimes.names, nodeLabels);
    } catch (error) {
      if (!isStatusError(error, "Forbidden")) throw error;
      print(
        `not allowed to create the RuntimeClasses ${runtimes.names.join(", ")}; without them Pods run in the default runtime only`,
      );
    }
  }

  async #startServer(client: Client, nodeName: string, address: string, kubelet: () => Kubelet): Promise<number> {
    const { connection, dataDir, port, log } = this.#options;
    const server = await startNodeServer({
      ...{ nodeName, address, port, clock: systemClock },
      tls: await servingCertificate(join(dataDir, "pki"), address),
      // As in kubeadm's clusters, where one authority signs the certificates of servers and clients.
      clientAuthority: connection.transport.ca,
      reviews: new ClusterIdentities({ client, clock: systemClock }),
      handlers: podHandlers({ client: () => client, kubelet, now: () => systemClock.now() }),
      onError: (error) => log.error({ err: error }, "kubelet request failed"),
    }).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      throw new UsageError(`--port: ${why}; choose another port, or 0 for a free one`);
    });
    this.#stops.push(() => server.stop());
    return server.port;
  }
}

/** authentication.k8s.io/v1 SelfSubjectReview. */
interface SelfSubjectReviewObject extends KubernetesObject {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

const SelfSubjectReview: ResourceType<SelfSubjectReviewObject> = {
  group: "authentication.k8s.io",
  version: "v1",
  kind: "SelfSubjectReview",
  plural: "selfsubjectreviews",
  scope: "Cluster",
};

async function whoAmI(client: Client): Promise<{ readonly username: string }> {
  const { status } = await client.create(SelfSubjectReview, { metadata: {} });
  return { username: status?.userInfo?.username ?? "" };
}

function nameOf(username: string, requested: string | undefined): { readonly nodeName: string; readonly isNode: boolean } {
  const own = /^system:node:(.+)$/.exec(username)?.[1];
  if (own !== undefined && requested !== undefined && requested !== own) {
    throw new UsageError(`--name: the kubeconfig belongs to node ${own}`);
  }
  return { nodeName: own ?? requested ?? machineName(), isNode: own !== undefined };
}

/** Records the node's name, and rejects one that another machine uses. */
async function claimName(client: Client, nodeName: string, dataDir: string): Promise<void> {
  const file = join(dataDir, "node-name");
  const recorded = (await readFile(file, "utf8").catch(() => "")).trim();
  if (recorded === nodeName) return;
  if (recorded !== "") {
    throw new UsageError(`--name: this data directory belongs to node ${recorded}; choose another --data-dir for ${nodeName}`);
  }
  if ((await ignoreNotFound(client.get(Node, { name: nodeName }))) !== undefined) {
    throw new NodeError(
      "NameTaken",
      `node ${nodeName} already exists; choose another name with --name, or delete it first: kubectl delete node ${nodeName}`,
    );
  }
  await writeFileAtomic(file, `${nodeName}\n`, { durable: true });
}

function apiServerOf({ server, ca }: HttpTransportOptions): { host: string; port: number; authority?: string } {
  const { hostname, port, protocol } = new URL(server);
  return {
    host: hostname,
    port: Number(port) || (protocol === "http:" ? 80 : 443),
    ...(ca === undefined ? {} : { authority: ca }),
  };
}
