import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery";
import { type ServedApi, serveApi, systemRandom } from "@keelson/apiserver";
import { type Client, createClient } from "@keelson/client";
import { type Kubelet, podHandlers, startCluster, startKubelet, startServiceProxy } from "@keelson/cluster";
import { type FlagValues, type Logger, type Operator, type RunningOperator, startOperator } from "@keelson/controller";
import { operatorUser, prepareOperator } from "./operator-access.ts";

/** Options of {@link startLocal}. */
export interface LocalOptions {
  readonly dataDir: string;
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly apiPort: number;
  /** Names of port flags that may become 0 where the port is in use. */
  readonly mayMovePorts: ReadonlySet<string>;
  readonly operators: readonly Operator[];
  /** Runs garbage collection and the like. */
  readonly hasCluster: boolean;
  readonly flags: FlagValues;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Called when a component is up, with a line about it. */
  readonly onComponent: (name: string, description: string) => void;
}

/** Everything on this machine. */
export interface Local {
  readonly dataDir: string;
  readonly kubeconfig: string;
  /** A client that may do everything, in process. */
  readonly client: Client;
  /** Addresses of the operators' servers, by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** Rejects when a component failed for good; never resolves. */
  readonly failed: Promise<never>;
  /** Stops everything, the last started first. */
  stop(): Promise<void>;
}

/** Starts the API server, the cluster's controllers and the operators, in that order; when one fails, stops what had started. */
export async function startLocal(options: LocalOptions): Promise<Local> {
  const { dataDir, clock, log, signal, onComponent } = options;
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  try {
    // Logs and exec are answered by the node, which starts after the server that asks it.
    let node: Kubelet | undefined;
    let client: Client | undefined;
    const handlers = podHandlers({ client: () => client, kubelet: () => node, now: () => clock.now() });
    const api = await startApi(options, handlers);
    stops.push(() => api.close());
    onComponent("apiserver", api.url);

    client = createClient({ transport: api.server.transport(), fieldManager: "keelson" });
    if (options.hasCluster) {
      const cluster = await startCluster({
        client: createClient({
          transport: api.server.transport({
            user: { username: "system:kube-controller-manager", groups: ["system:masters", "system:authenticated"] },
          }),
          fieldManager: "kube-controller-manager",
        }),
        kinds: {
          list: () => storedKinds(api),
          onChange: (listener) => api.server.resources.onChange(listener),
        },
        clock,
        log: log.child({ component: "cluster" }),
      });
      stops.push(() => cluster.stop());
      onComponent("cluster", cluster.description);

      const { hostname, port } = new URL(api.url);
      const kubelet = await startKubelet({
        client: createClient({
          transport: api.server.transport({ user: nodeUser, userAgent: "kubelet" }),
          fieldManager: "kubelet",
        }),
        dataDir: join(dataDir, "node"),
        clock,
        random: Math.random,
        log: log.child({ component: "node" }),
        apiServer: { host: hostname, port: Number(port) },
      });
      node = kubelet;
      stops.push(() => kubelet.stop());
      const proxy = await startServiceProxy({
        client: createClient({ transport: api.server.transport({ user: nodeUser, userAgent: "kube-proxy" }), fieldManager: "kube-proxy" }),
        clock,
        random: Math.random,
        log: log.child({ component: "node" }),
      });
      stops.push(() => proxy.stop());
      onComponent("node", kubelet.description);
    }

    const running: RunningOperator[] = [];
    for (const operator of options.operators) {
      await prepareOperator(client, operator, signal);
      const started = await startOne(operator, api, options);
      stops.push(() => started.stop());
      running.push(started);
      for (const description of started.descriptions) onComponent(operator.name, description);
    }
    const failed = new Promise<never>((_, reject) => {
      for (const each of running) each.done.catch(reject);
    });
    failed.catch(() => {});
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

/** The node's kubelet. It writes Pods' and its Node's status, reads what Pods name, and asks for their tokens. */
const nodeUser = { username: "system:node:local", groups: ["system:nodes", "system:masters", "system:authenticated"] };

async function startOne(operator: Operator, api: ServedApi, options: LocalOptions): Promise<RunningOperator> {
  const { clock, log, signal, flags, mayMovePorts } = options;
  const dataDir = join(options.dataDir, operator.name);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const start = (values: FlagValues): Promise<RunningOperator> =>
    startOperator({
      operator,
      client: createClient({
        transport: api.server.transport({ user: operatorUser(operator) }),
        fieldManager: `keelson-${operator.name}`,
      }),
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

function startApi(options: LocalOptions, subresources: ReturnType<typeof podHandlers>): Promise<ServedApi> {
  const { dataDir, bindAddress, clock, log } = options;
  const serve = (port: number): Promise<ServedApi> =>
    serveApi({
      dataDir,
      bindAddress,
      port,
      clock,
      random: systemRandom,
      subresources,
      onError: (error) => log.error({ err: error, component: "apiserver" }, "failed where nobody waits for an answer"),
    });
  return withFreePort(() => serve(options.apiPort), options.mayMovePorts.has("api-port") ? () => serve(0) : undefined);
}

/** Tries again with a free port where the first one is in use and `again` is there. */
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

/** One type for every kind that is stored: the version that is stored, so that each object is followed once. */
function storedKinds(api: ServedApi): ReturnType<Parameters<typeof startCluster>[0]["kinds"]["list"]> {
  const seen = new Map<
    string,
    { group: string; version: string; kind: string; plural: string; scope: "Namespaced" | "Cluster" }
  >();
  for (const resource of api.server.resources.list()) {
    const { group, version, kind, plural, scope, verbs } = resource;
    if (!verbs.includes("delete") || !verbs.includes("watch")) continue;
    const isStorageVersion = resource.storageApiVersion === (group === "" ? version : `${group}/${version}`);
    if (isStorageVersion) seen.set(`${group}/${plural}`, { group, version, kind, plural, scope });
  }
  return [...seen.values()];
}
