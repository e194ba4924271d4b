import { chmod, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, createClient, createHttpTransport, type UpgradingTransport } from "@keelson/client";
import {
  type CertificateSigner,
  discoverKinds,
  ensureRuntimeClasses,
  hasProcessAccess,
  issueTokensBy,
  type Kubelet,
  machineName,
  openPodRuntimes,
  podHandlers,
  PodNetwork,
  type PodRuntimes,
  type PodRuntimesOptions,
  startCluster,
  startKubelet,
  startKubeletServer,
  startNetworkRules,
  startServiceProxy,
} from "@keelson/cluster";
import { createPrometheusMetrics, type PrometheusMetrics } from "@keelson/controller/metrics";
import { createProbeServer } from "@keelson/controller/probes";
import { defaultContainerdSocket, openUnpackedImages, type UnpackedImages } from "@keelson/execution";
import { type FlagValues, type Operator, type RunningOperator, startOperator } from "@keelson/operator";
import { imagesFolder, sandboxes } from "@keelson/sandboxes";
import { grant } from "../access/cluster-access.ts";
import { clusterUsers } from "../access/identities.ts";
import { kubeletSocket } from "../kubelet-socket.ts";
import { metricsAccess } from "../access/metrics-access.ts";
import { ensureSystemNamespace, prepareOperator } from "../access/operator-access.ts";
import { requirePodRuntime } from "../require-pod-runtime.ts";
import { withFreePort } from "../ports.ts";
import { operatorTokenName } from "../access/token-names.ts";
import { withMetricsPortHint } from "./metrics-port-hint.ts";
import type { ControllersConfig } from "./messages.ts";
import { type NetworkParts, startNetworkParts } from "./network-parts.ts";
import type { ComponentContext, RunningComponent } from "./run-component.ts";

/** Starts the built-in controllers, the node and these operators of `keelson up`. If one fails, stops those already started. */
export async function startControllersComponent(
  config: ControllersConfig,
  operators: readonly Operator[],
  context: ComponentContext,
): Promise<RunningComponent> {
  const controllers = new Controllers(config, operators, context);
  try {
    return await controllers.start();
  } catch (error) {
    await controllers.stop();
    throw error;
  }
}

class Controllers {
  readonly #config: ControllersConfig;
  readonly #definitions: readonly Operator[];
  readonly #context: ComponentContext;
  readonly #stops: (() => Promise<void>)[] = [];
  readonly #operators: RunningOperator[] = [];
  readonly #endpoints: Record<string, string> = {};
  #authority = "";
  #frontProxyAuthority = "";
  #metrics: PrometheusMetrics | undefined;
  #isReady = false;

  constructor(config: ControllersConfig, operators: readonly Operator[], context: ComponentContext) {
    this.#config = config;
    this.#definitions = operators;
    this.#context = context;
  }

  async start(): Promise<RunningComponent> {
    const { dataDir, hasCluster } = this.#config;
    this.#authority = await readFile(join(dataDir, "pki", "ca.crt"), "utf8");
    this.#frontProxyAuthority = await readFile(join(dataDir, "pki", "front-proxy-ca.crt"), "utf8");
    const admin = this.#client("admin", "keelson");
    await this.#startMetrics(admin);
    if (this.#definitions.length > 0) await ensureSystemNamespace(admin, this.#context.signal);
    const allPrepared = Promise.all(this.#definitions.map((each) => prepareOperator(admin, each, this.#context.signal)));
    // If the cluster does not start, its error is reported instead.
    allPrepared.catch(() => {});
    if (hasCluster) await this.#startCluster(admin);
    await allPrepared;
    for (const operator of this.#definitions) await this.#startOperator(operator);
    const failed = new Promise<never>((_, reject) => {
      for (const each of this.#operators) each.done.catch(reject);
    });
    failed.catch(() => {});
    this.#isReady = true;
    return {
      endpoints: Object.assign(this.#endpoints, ...this.#operators.map((each) => each.endpoints)),
      failed,
      stop: () => this.stop(),
    };
  }

  async stop(): Promise<void> {
    for (let next = this.#stops.pop(); next !== undefined; next = this.#stops.pop()) await next();
  }

  /** A transport that authenticates as the holder of the named token. */
  #transport(tokenName: string): UpgradingTransport {
    const { server, socketPath, tokens } = this.#config;
    const transport = createHttpTransport({
      ...(socketPath === undefined ? { server, ca: this.#authority } : { server: "http://localhost", socketPath }),
      token: tokens[tokenName] ?? "",
      clock: systemClock,
    });
    this.#stops.push(() => transport.close());
    return transport;
  }

  #client(tokenName: string, fieldManager: string): Client {
    return createClient({ transport: this.#transport(tokenName), fieldManager, userAgent: fieldManager });
  }

  async #startMetrics(client: Client): Promise<void> {
    const { dataDir, metricsPort } = this.#config;
    if (metricsPort === undefined) return;
    this.#metrics = await createPrometheusMetrics({
      clock: systemClock,
      processFigures: true,
      onCollectError: (err) => this.#context.log.warn({ err }, "failed to collect metrics"),
    });
    const server = createProbeServer({
      metrics: this.#metrics,
      access: await metricsAccess({ dataDir, client, clock: systemClock }),
      reconciles: { reconciles: (filter) => this.#operators.flatMap((each) => each.reconciles(filter)) },
      ready: {
        started: () => {
          if (!this.#isReady) throw new Error("not started yet");
        },
      },
    });
    this.#stops.push(() => server.stop());
    const address = await withMetricsPortHint(server.listen(metricsPort));
    this.#endpoints["metrics"] = address;
    this.#context.onStarted("metrics", `${address}/metrics`);
  }

  async #startCluster(admin: Client): Promise<void> {
    const { dataDir, terminatedPodThreshold } = this.#config;
    const { log, onStarted } = this.#context;
    await Promise.all(Object.values(clusterUsers()).map((user) => grant(admin, user)));
    const collector = this.#client("collector", "kube-controller-manager");
    const common = { clock: systemClock, random: Math.random, log: log.child({ component: "cluster" }) };
    const kinds = await discoverKinds({ transport: this.#transport("collector"), client: collector, ...common });
    this.#stops.push(() => kinds.stop());
    const cluster = await startCluster({
      client: this.#client("controllers", "kube-controller-manager"),
      collector,
      kinds,
      initialList: "stream",
      ...common,
      rootCa: this.#authority,
      certificateSigner: await this.#certificateSigner(),
      volumesDirectory: join(dataDir, "volumes"),
      podGarbage: { terminatedPodThreshold },
    });
    this.#stops.push(() => cluster.stop());
    onStarted("cluster", cluster.description);
    const network = await this.#openNetwork();
    const proxied = {
      client: this.#client("proxy", "kube-proxy"),
      clock: systemClock,
      random: Math.random,
      log: log.child({ component: "node" }),
    };
    const nodeParts = { ...proxied, nodeName: machineName(), podClient: this.#client("node", "kubelet") };
    const kubelet = await this.#startNode(
      admin,
      network && (await startNetworkParts(network, { ...nodeParts, admin }, this.#stops)),
    );
    const proxy =
      network === undefined
        ? await startServiceProxy(proxied)
        : startNetworkRules({
            ...nodeParts,
            names: network.names,
            apiPort: Number(new URL(this.#config.server).port),
          });
    this.#stops.push(() => proxy.stop());
    onStarted("node", kubelet.description);
  }

  /** Opens the network of Pods with their own namespaces. */
  async #openNetwork(): Promise<PodNetwork | undefined> {
    const { dataDir, podNetwork, serviceNetwork, podNetworkKind } = this.#config;
    if (podNetworkKind === "loopback") return undefined;
    const log = this.#context.log.child({ component: "node" });
    const network = await PodNetwork.open({ dataDir, podNetwork, serviceNetwork, log });
    this.#stops.push(() => network.close());
    return network;
  }

  /** Signs with the cluster's authority. Its code is loaded with the first request. */
  async #certificateSigner(): Promise<CertificateSigner> {
    const key = await readFile(join(this.#config.dataDir, "pki", "ca.key"), "utf8");
    const load = async (): Promise<CertificateSigner> => {
      const { createCertificateSigner } = await import("@keelson/apiserver/certificates");
      return createCertificateSigner({ certificate: this.#authority, key });
    };
    return {
      subjectOf: async (request) => (await load()).subjectOf(request),
      sign: async (options) => (await load()).sign(options),
    };
  }

  async #startNode(admin: Client, networkParts: NetworkParts | undefined): Promise<Kubelet> {
    const { dataDir, podNetwork, serviceNetwork, podRuntime, server, allowedUnsafeSysctls, eviction } = this.#config;
    const log = this.#context.log.child({ component: "node" });
    const { hostname, port } = new URL(server);
    const nodeDir = join(dataDir, "node");
    const unpacked = await openImages(join(dataDir, sandboxes.name));
    const runtimes = await this.#openRuntimes({ dataDir: nodeDir, clock: systemClock, random: Math.random, unpacked });
    this.#stops.push(() => runtimes.close());
    requirePodRuntime(podRuntime, runtimes);
    await ensureRuntimeClasses(admin, runtimes.names);
    runtimes.onChange(({ handler }) => ensureRuntimeClasses(admin, [handler]));
    const client = this.#client("node", "kubelet");
    const kubelet = await startKubelet({
      ...{ client, nodeName: machineName(), dataDir: nodeDir, runtimes, podNetwork, log },
      defaultRuntime: podRuntime,
      ...{ allowedUnsafeSysctls, eviction },
      clock: systemClock,
      random: Math.random,
      ...(networkParts !== undefined && {
        ...networkParts,
        hostIP: networkParts.network.names.nodeAddress,
        clusterApiServer: { host: `${serviceNetwork}.0.1`, port: 443 },
      }),
      apiServer: { host: hostname, port: Number(port), authority: this.#authority },
      issueToken: issueTokensBy(client),
    });
    this.#stops.push(() => kubelet.stop());
    const kubeletServer = await startKubeletServer({
      socketPath: kubeletSocket(dataDir),
      handlers: podHandlers({
        client: () => client,
        kubelet: () => kubelet,
        now: () => systemClock.now(),
        mayUseProcess: hasProcessAccess,
      }),
      metrics: () => kubelet.metrics(),
      onError: (error) => log.error({ err: error }, "kubelet request failed"),
    });
    this.#stops.push(() => kubeletServer.stop());
    return kubelet;
  }

  /** Opens the node's runtimes. Without an explicit socket, the standard containerd is used as soon as it responds. */
  #openRuntimes(common: PodRuntimesOptions): Promise<PodRuntimes> {
    const { containerd } = this.#config;
    if (containerd !== undefined) return openPodRuntimes({ ...common, containerd });
    if (process.getuid?.() !== 0) return openPodRuntimes(common);
    const log = this.#context.log.child({ component: "node" });
    return openPodRuntimes({ ...common, awaitedContainerd: defaultContainerdSocket, log });
  }

  async #startOperator(operator: Operator): Promise<void> {
    const { dataDir, flags, mayMovePorts, server } = this.#config;
    const { log, signal, onStarted } = this.#context;
    const operatorDir = join(dataDir, operator.name);
    await mkdir(operatorDir, { recursive: true, mode: 0o700 });
    const own = this.#transport(operatorTokenName(operator.name));
    const transport = this.#metrics === undefined ? own : this.#metrics.measured(own, new URL(server).host);
    const start = (values: FlagValues): Promise<RunningOperator> =>
      startOperator({
        operator,
        client: createClient({ transport, fieldManager: `keelson-${operator.name}` }),
        ...(this.#metrics === undefined ? {} : { metrics: this.#metrics }),
        clock: systemClock,
        logger: log,
        dataDir: operatorDir,
        flags: values,
        webhooks: { clientAuthority: this.#frontProxyAuthority },
        initialList: "stream",
        signal,
      });
    const ports = operator.servers
      .flatMap((each) => each.flags ?? [])
      .filter((flag) => flag.value === "PORT" && mayMovePorts.includes(flag.name));
    const moved = { ...flags, ...Object.fromEntries(ports.map((flag) => [flag.name, "0"])) };
    const started = await withFreePort(() => start(flags), ports.length > 0 ? () => start(moved) : undefined);
    this.#stops.push(() => started.stop());
    this.#operators.push(started);
    for (const description of started.descriptions) onStarted(operator.name, description);
  }
}

/** Opens the images that Pods share with sandboxes. */
async function openImages(dir: string): Promise<UnpackedImages> {
  const images = await openUnpackedImages(imagesFolder(dir));
  // Programs of other users have their root file system in this directory; its secret files have their own modes.
  await chmod(dir, 0o711);
  return images;
}
