import { chmod, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { type ServedApi, serveApi, systemRandom } from "@keelson/apiserver";
import { type Client, createClient } from "@keelson/client";
import {
  type ClusterUser,
  collectorUser,
  controllersUser,
  issueTokensBy,
  type Kubelet,
  ensureRuntimeClasses,
  machineName,
  nodeUser,
  openPodRuntimes,
  type PodRuntimes,
  type PodRuntimesOptions,
  podHandlers,
  proxyUser,
  startCluster,
  storedKinds,
  startKubelet,
  startServiceProxy,
} from "@keelson/cluster";
import { createPrometheusMetrics, createProbeServer, type Logger, type PrometheusMetrics } from "@keelson/controller";
import { type FlagValues, type Operator, type RunningOperator, startOperator } from "@keelson/operator";
import { defaultContainerdSocket, openUnpackedImages, type UnpackedImages } from "@keelson/execution";
import { imagesFolder, sandboxes } from "@keelson/sandboxes";
import { reserveAddressBlock } from "./address-block.ts";
import { grant, userOf } from "./cluster-access.ts";
import { operatorUser, prepareOperator } from "./operator-access.ts";
import { metricsAccess } from "./metrics-access.ts";
import { PodIsolation, type PodRuntimeName } from "./pod-runtime.ts";

/** Options of {@link startLocal}. */
export interface LocalOptions {
  readonly dataDir: string;
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly apiPort: number;
  /** Port of metrics and probes on loopback; 0 picks a free one; `undefined` disables them. */
  readonly metricsPort: number | undefined;
  /** Names of the port flags that may fall back to a free port. */
  readonly mayMovePorts: ReadonlySet<string>;
  readonly operators: readonly Operator[];
  /** Whether to run the built-in controllers and the node. */
  readonly hasCluster: boolean;
  /** Socket of a containerd that must respond. Default: the standard socket, if one responds. */
  readonly containerd: string | undefined;
  /** The runtime of Pods without a RuntimeClass. */
  readonly podRuntime: PodRuntimeName;
  readonly flags: FlagValues;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Called with a one-line description when a component has started. */
  readonly onComponent: (name: string, description: string) => void;
}

/** A running Keelson on this machine. */
export interface Local {
  readonly dataDir: string;
  readonly kubeconfig: string;
  /** An in-process client with all rights. */
  readonly client: Client;
  /** Addresses of the operators' servers, by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** Rejects when a component failed permanently; never resolves. */
  readonly failed: Promise<never>;
  /** Stops all components in reverse starting order. */
  stop(): Promise<void>;
}

/** Starts the API server, the built-in controllers and the operators, in that order. If one fails, stops those already started. */
export async function startLocal(options: LocalOptions): Promise<Local> {
  const { dataDir, clock, log, signal, onComponent } = options;
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  try {
    // The API server proxies logs and exec to the node, which starts later.
    let node: Kubelet | undefined;
    let client: Client | undefined;
    const isolation = new PodIsolation(options.podRuntime);
    const handlers = podHandlers({
      client: () => client,
      kubelet: () => node,
      now: () => clock.now(),
      mayUseProcess: (user) => isolation.mayUseProcess(user),
    });
    const addresses = await reserveAddressBlock(dataDir);
    stops.push(() => addresses.release());
    const admission = options.hasCluster ? [isolation.step] : [];
    const api = await startApi(options, handlers, admission, addresses.serviceNetwork);
    stops.push(() => api.close());
    if (addresses.hasMoved)
      log.warn(
        { network: addresses.podNetwork },
        "the address block of this data folder is in use by another one; using a new block",
      );
    await addresses.record();
    onComponent("apiserver", api.url);

    client = createClient({ transport: api.server.transport(), fieldManager: "keelson" });
    isolation.connect(api.server, client);
    const running: RunningOperator[] = [];
    let isReady = false;
    let metrics: PrometheusMetrics | undefined;
    if (options.metricsPort !== undefined) {
      metrics = await createPrometheusMetrics({ clock, processFigures: true });
      const server = createProbeServer({
        metrics,
        access: await metricsAccess({ dataDir, client, clock }),
        reconciles: { reconciles: (filter) => running.flatMap((each) => each.reconciles(filter)) },
        ready: {
          started: () => {
            if (!isReady) throw new Error("not started yet");
          },
        },
      });
      stops.push(() => server.stop());
      onComponent("metrics", `${await withMetricsPortHint(server.listen(options.metricsPort))}/metrics`);
    }
    if (options.hasCluster) {
      const admin = client;
      const nodeName = machineName();
      const users = { node: nodeUser(nodeName), proxy: proxyUser, controllers: controllersUser, collector: collectorUser };
      await Promise.all(Object.values(users).map((user) => grant(admin, user)));
      const clientOf = (user: ClusterUser, name: string): Client =>
        createClient({ transport: api.server.transport({ user: userOf(user), userAgent: name }), fieldManager: name });
      const cluster = await startCluster({
        client: clientOf(users.controllers, "kube-controller-manager"),
        collector: clientOf(users.collector, "kube-controller-manager"),
        kinds: storedKinds(api.server.resources),
        clock,
        log: log.child({ component: "cluster" }),
        rootCa: await readFile(join(dataDir, "pki", "ca.crt"), "utf8"),
        volumesDirectory: join(dataDir, "volumes"),
      });
      stops.push(() => cluster.stop());
      onComponent("cluster", cluster.description);

      const { hostname, port } = new URL(api.url);
      const nodeDir = join(dataDir, "node");
      const unpacked = await openImages(join(dataDir, sandboxes.name));
      const runtimes = await openRuntimes({ dataDir: nodeDir, clock, random: Math.random, unpacked }, options);
      stops.push(() => runtimes.close());
      isolation.use(runtimes);
      await ensureRuntimeClasses(admin, runtimes.names);
      runtimes.onChange(({ handler }) => ensureRuntimeClasses(admin, [handler]));
      const nodeClient = clientOf(users.node, "kubelet");
      const kubelet = await startKubelet({
        client: nodeClient,
        nodeName,
        dataDir: nodeDir,
        runtimes,
        defaultRuntime: options.podRuntime,
        podNetwork: addresses.podNetwork,
        clock,
        random: Math.random,
        log: log.child({ component: "node" }),
        apiServer: { host: hostname, port: Number(port), authority: await readFile(join(dataDir, "pki", "ca.crt"), "utf8") },
        issueToken: issueTokensBy(nodeClient),
      });
      node = kubelet;
      stops.push(() => kubelet.stop());
      const proxy = await startServiceProxy({
        client: clientOf(users.proxy, "kube-proxy"),
        clock,
        random: Math.random,
        log: log.child({ component: "node" }),
      });
      stops.push(() => proxy.stop());
      onComponent("node", kubelet.description);
    }

    for (const operator of options.operators) {
      await prepareOperator(client, operator, signal);
      const started = await startOne(operator, api, options, metrics);
      stops.push(() => started.stop());
      running.push(started);
      for (const description of started.descriptions) onComponent(operator.name, description);
    }
    const failed = new Promise<never>((_, reject) => {
      for (const each of running) each.done.catch(reject);
    });
    failed.catch(() => {});
    isReady = true;
    return {
      dataDir,
      kubeconfig: api.kubeconfig,
      client,
      endpoints: Object.assign({}, ...running.map((each) => each.endpoints)),
      failed,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Adds the flag's name to a listen error. */
async function withMetricsPortHint(address: Promise<string>): Promise<string> {
  try {
    return await address;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new Error(`--metrics-port: ${message}; choose another port, 0 for a free one, or off`, { cause: error });
  }
}

async function startOne(
  operator: Operator,
  api: ServedApi,
  options: LocalOptions,
  metrics: PrometheusMetrics | undefined,
): Promise<RunningOperator> {
  const { clock, log, signal, flags, mayMovePorts } = options;
  const dataDir = join(options.dataDir, operator.name);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const own = api.server.transport({ user: operatorUser(operator) });
  const transport = metrics === undefined ? own : metrics.measured(own, new URL(api.url).host);
  const start = (values: FlagValues): Promise<RunningOperator> =>
    startOperator({
      operator,
      client: createClient({ transport, fieldManager: `keelson-${operator.name}` }),
      ...(metrics === undefined ? {} : { metrics }),
      clock,
      logger: log.child({ operator: operator.name }),
      dataDir,
      flags: values,
      signal,
    });
  const ports = operator.servers
    .flatMap((server) => server.flags ?? [])
    .filter((flag) => flag.value === "PORT" && mayMovePorts.has(flag.name));
  return withFreePort(
    () => start(flags),
    ports.length > 0 ? () => start({ ...flags, ...Object.fromEntries(ports.map((flag) => [flag.name, "0"])) }) : undefined,
  );
}

function startApi(
  options: LocalOptions,
  subresources: ReturnType<typeof podHandlers>,
  admission: readonly PodIsolation["step"][],
  serviceNetwork: string,
): Promise<ServedApi> {
  const { dataDir, bindAddress, clock, log } = options;
  const serve = (port: number): Promise<ServedApi> =>
    serveApi({
      dataDir,
      bindAddress,
      port,
      clock,
      random: systemRandom,
      subresources,
      admission,
      serviceNetwork,
      // The service account controller creates them.
      requiresServiceAccounts: options.hasCluster,
      onError: (error) => log.error({ err: error, component: "apiserver" }, "background error"),
    });
  return withFreePort(() => serve(options.apiPort), options.mayMovePorts.has("api-port") ? () => serve(0) : undefined);
}

/** Opens the images that Pods share with sandboxes. */
async function openImages(dir: string): Promise<UnpackedImages> {
  const images = await openUnpackedImages(imagesFolder(dir));
  // Programs of other users have their root file system in this folder; its secret files have their own modes.
  await chmod(dir, 0o711);
  return images;
}

/** Opens the node's runtimes. Without an explicit socket, the standard containerd is used as soon as it responds. */
function openRuntimes(common: PodRuntimesOptions, { containerd, log }: LocalOptions): Promise<PodRuntimes> {
  if (containerd !== undefined) return openPodRuntimes({ ...common, containerd });
  if (process.getuid?.() !== 0) return openPodRuntimes(common);
  return openPodRuntimes({ ...common, awaitedContainerd: defaultContainerdSocket, log: log.child({ component: "node" }) });
}

/** Runs `start`; if its port is in use, runs `again` with a free one. */
async function withFreePort<T>(start: () => Promise<T>, again: (() => Promise<T>) | undefined): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (again === undefined || !isPortInUse(error)) throw error;
    return again();
  }
}

function isPortInUse(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && cause.code === "EADDRINUSE") return true;
  }
  return false;
}
