import type { EvictionSettings } from "@keelson/cluster/eviction";
import { chmod, readFile } from "node:fs/promises";
import { join } from "node:path";
import { isStatusError } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import {
  ensureRuntimeClasses,
  isProcessAccessDenied,
  issueTokensBy,
  type Kubelet,
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
import { imagesFolder, sandboxes } from "@keelson/sandboxes";
import { UsageError } from "@keelson/operator/flags";
import { lockDataFolder } from "../local/data-folder-lock.ts";
import type { PodRuntimeName } from "../local/pod-runtime-flag.ts";
import { requirePodRuntime } from "../local/require-pod-runtime.ts";
import { addressTowards, isLoopback } from "./node-address.ts";
import { type PodBlock, routeToThisMachine } from "./pod-block.ts";
import { requestNodeCertificate } from "./node-certificate.ts";
import { NodeCredentials } from "./node-credentials.ts";
import { claimName, isAccepted, nameOf, whoAmI } from "./node-name.ts";
import { servingCertificate } from "./serving-certificate.ts";

/** Options of {@link startNode}. */
export interface NodeOptions {
  /** The cluster, with the permissions of the user who joins the node. */
  readonly connection: Connection;
  readonly dataDir: string;
  /** Default: the name of the node that the connection belongs to, otherwise this machine's host name. */
  readonly name: string | undefined;
  /** Default: this machine's address on the way to the API server. */
  readonly address: string | undefined;
  /** Port of the kubelet's HTTPS API. 0 picks a free one. */
  readonly port: number;
  readonly podRuntime: PodRuntimeName;
  /** The block of Pod addresses. Default: Pods have the address of this machine. */
  readonly podBlock: PodBlock | undefined;
  /** Kernel parameters that Pods may set beyond the safe ones. */
  readonly allowedUnsafeSysctls: readonly string[];
  /** When the node is low on disk space. */
  readonly eviction: EvictionSettings;
  /** Socket of a containerd that must respond. Default: the standard socket, if one responds. */
  readonly containerd: string | undefined;
  readonly taints: readonly Taint[];
  /** File with the authority of client certificates. Default: the one that the API server publishes. */
  readonly clientAuthorityFile: string | undefined;
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
    for (let next = this.#stops.pop(); next !== undefined; next = this.#stops.pop()) {
      try {
        await next();
      } catch (error) {
        // Stop the rest and unlock the data directory regardless.
        this.#options.log.warn({ err: error }, "could not stop a part of the node");
      }
    }
  }

  async start(): Promise<void> {
    const { connection, dataDir, podRuntime, podBlock, log, print } = this.#options;
    const lock = await lockDataFolder(dataDir, Math.random);
    this.#stops.push(() => lock.release());
    const user = this.#client(connection.transport);
    const { username } = await whoAmI(user);
    const { nodeName, isNode } = nameOf(username, this.#options.name);
    const claim = await claimName(user, nodeName, dataDir);
    const address = this.#options.address ?? (await addressTowards(connection.transport.server));
    const client = isNode ? user : await this.#nodeClient(user, nodeName);
    const runtimes = await this.#openRuntimes();
    requirePodRuntime(podRuntime, runtimes);
    if (podBlock !== undefined) await routeToThisMachine(podBlock.cidr);
    await this.#publishRuntimes(user, runtimes.names);
    runtimes.onChange(async ({ handler, isAvailable }) => {
      if (!isAvailable) return;
      await this.#publishRuntimes(user, [handler]).catch((error: unknown) =>
        log.warn({ err: error, handler }, "could not create the RuntimeClass"),
      );
    });
    const clientAuthority = await this.#clientAuthority(user);
    let kubelet: Kubelet | undefined;
    const port = await this.#startServer({ client, nodeName, address, clientAuthority, kubelet: () => kubelet });
    await claim.record();
    const started = await startKubelet({
      ...{ client, nodeName, runtimes, log, labels: nodeLabels, taints: this.#options.taints },
      dataDir: join(dataDir, "node"),
      defaultRuntime: podRuntime,
      allowedUnsafeSysctls: this.#options.allowedUnsafeSysctls,
      eviction: this.#options.eviction,
      clock: systemClock,
      random: Math.random,
      hostIP: address,
      ...(podBlock === undefined ? { sharesHostAddress: true } : { podAddresses: podBlock.range }),
      serverPort: port,
      // A node has no permission to read them.
      followsEndpointSlices: false,
      apiServer: apiServerOf(connection.transport),
      issueToken: issueTokensBy(client),
    });
    kubelet = started;
    this.#stops.push(() => started.stop());
    print(`node ${nodeName} joined ${connection.transport.server}`);
    print(`address ${address}, kubelet API on port ${port}; Pods run ${runtimeNames[podRuntime]}`);
    if (podBlock !== undefined)
      print(`Pods have addresses of ${podBlock.cidr}; other machines need a route to ${address} for it`);
    else if (isLoopback(address)) {
      print(
        `${address} is a loopback address, which API servers reject in Endpoints: Services cannot select Pods of this node; pass --address or --pod-cidr`,
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
    const { impersonate: _, ...transport } = connection.transport;
    const client = this.#client({ ...transport, credentials });
    const isKnown = (await credentials.load()) && (await isAccepted(client));
    const request = (by: Client, report: (line: string) => void): Promise<KeyPair> =>
      requestNodeCertificate({ client: by, nodeName, folder, clock: systemClock, print: report, signal });
    if (!isKnown) await credentials.replace(await request(user, print));
    // The cluster usually approves renewals by itself.
    credentials.renewBy(() => request(client, (line) => log.info({}, line)));
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
  async #publishRuntimes(user: Client, handlers: readonly string[]): Promise<void> {
    const { print } = this.#options;
    try {
      await ensureRuntimeClasses(user, handlers, nodeLabels);
    } catch (error) {
      if (!isStatusError(error, "Forbidden")) throw error;
      print(
        `not allowed to create the RuntimeClasses ${handlers.join(", ")}; without them Pods run in the default runtime only`,
      );
    }
  }

  /** The authority of the cluster's client certificates, which the API server publishes. */
  async #clientAuthority(user: Client): Promise<string | undefined> {
    const key = { namespace: "kube-system", name: "extension-apiserver-authentication" };
    const { clientAuthorityFile, print } = this.#options;
    if (clientAuthorityFile !== undefined) return readFile(clientAuthorityFile, "utf8");
    try {
      const authority = (await user.get(ConfigMap, key)).data?.["client-ca-file"];
      if (authority) return authority;
    } catch (error) {
      if (!isStatusError(error, "Forbidden") && !isStatusError(error, "NotFound")) throw error;
    }
    print(
      `no client CA in ConfigMap ${key.namespace}/${key.name}, or not allowed to read it; without --client-ca-file, kubectl logs and kubectl exec fail for Pods on this node`,
    );
    return undefined;
  }

  async #startServer(options: ServerOptions): Promise<number> {
    const { client, nodeName, address, clientAuthority, kubelet } = options;
    const { dataDir, port, log } = this.#options;
    const server = await startNodeServer({
      ...{ nodeName, address, port, clock: systemClock },
      tls: await servingCertificate(join(dataDir, "pki"), address),
      clientAuthority,
      reviews: new ClusterIdentities({ client, clock: systemClock }),
      handlers: podHandlers({
        ...{ client: () => client, kubelet, now: () => systemClock.now() },
        mayUseProcess: (call) => !isProcessAccessDenied(call),
      }),
      resourceMetrics: () => kubelet()?.resourceMetrics() ?? "",
      onError: (error) => log.error({ err: error }, "kubelet request failed"),
    }).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      throw new UsageError(`--port: ${why}; choose another port, or 0 for a free one`);
    });
    this.#stops.push(() => server.stop());
    return server.port;
  }
}

interface ServerOptions {
  readonly client: Client;
  readonly nodeName: string;
  readonly address: string;
  readonly clientAuthority: string | undefined;
  readonly kubelet: () => Kubelet | undefined;
}

function apiServerOf({ server, ca }: HttpTransportOptions): { host: string; port: number; authority?: string } {
  const { hostname, port, protocol } = new URL(server);
  return {
    host: hostname,
    port: Number(port) || (protocol === "http:" ? 80 : 443),
    ...(ca === undefined ? {} : { authority: ca }),
  };
}
