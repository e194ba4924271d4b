import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Pod } from "@keelson/api-machinery/kinds";
import { readOf } from "@keelson/controller";
import { ClusterIdentities } from "@keelson/controller/access";
import { createProbeServer } from "@keelson/controller/probes";
import type { RunningServer, ServerContext, ServerDefinition } from "@keelson/operator";
import { findBubblewrap, openUnpackedImages } from "@keelson/execution";
import {
  FastPathService,
  SandboxFiles,
  SandboxLifecycle,
  SandboxPorts,
  SandboxProcesses,
  SandboxStreams,
  SandboxUsage,
  SandboxVolumes,
} from "@keelson/sandbox/protocol";
import type { AgentClient } from "../fleet/agent-client.ts";
import { AgentMonitor } from "../fleet/agent-monitor.ts";
import { type AgentPlacement, listAgents, parseAgentPod } from "../fleet/agent-pod.ts";
import { placementOf } from "./agent-placement.ts";
import { hasLoadChange, sumWarm } from "../fleet/warm-status.ts";
import type { AgentIsolation } from "../agent/run-agent.ts";
import { agentLabels } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { SandboxVolume, volumeIndexes } from "../api/sandbox-volume.ts";
import { ensureToken } from "../bearer-token.ts";
import { sandboxReads } from "../controllers/sandbox.ts";
import { fastPathAllocation } from "../controllers/instance.ts";
import { hasEnded } from "../controllers/sandbox-decision.ts";
import { FastCreator } from "./creation/fast-creator.ts";
import { IntentLog } from "./creation/intent-log.ts";
import { serverFlags } from "../flags.ts";
import { authorizeCalls } from "./access/authorize-calls.ts";
import { describeAccess, fastPathTokenFile } from "./access/describe-access.ts";
import { proxyDomain, type RunningProxy, startProxy } from "../proxy/start-proxy.ts";
import {
  type FastPathAccess,
  fastPathFlags,
  type ProxySettings,
  readAccess,
  readIsolation,
  readProxy,
} from "./fastpath-flags.ts";
import { createFastPathMetrics, type FastPathMetrics, type WarmPool } from "./fastpath-metrics.ts";
import { startFastPathServer } from "./fastpath-server.ts";
import { loadTls } from "./tls/load-tls.ts";
import type { TlsMaterial } from "./tls/serving-tls.ts";
import { createFastPathService } from "./services/service.ts";
import { createStreamsService } from "./services/streams-service.ts";
import { createFilesService } from "./services/files-service.ts";
import { createProcessesService } from "./services/processes-service.ts";
import { createPortsService } from "./services/ports-service.ts";
import { createUsageService } from "./services/usage-service.ts";
import { createVolumesService } from "./services/volumes-service.ts";
import { createLifecycleService } from "./services/lifecycle-service.ts";
import { AgentFolderJanitor } from "../janitor/agent-folders.ts";
import { Janitor } from "../janitor/janitor.ts";
import { claimsOf, Registry } from "../registry/registry.ts";
import { RejectedCreates } from "../registry/rejected-creates.ts";
import { runtimeKey } from "../runtime.ts";

/** Directory below the operator's data directory with the sandboxes' images. */
export const imagesFolder = (dataDir: string): string => join(dataDir, "images");

/** Serves the fast path, monitors agents and runs the janitors. */
export const fastPathServer: ServerDefinition = {
  name: "fastpath",
  flags: serverFlags,
  reads: [sandboxReads, readOf(SandboxPool), readOf(SandboxVolume, volumeIndexes), readOf(Pod)],
  // Two instances would allocate the same slots.
  needsLeaderElection: true,
  start,
};

const strongTimeoutMs = 60_000;
/** How long the start waits for agents that do not respond. */
const firstReportTimeoutMs = 3_000;

async function start(context: ServerContext): Promise<RunningServer> {
  const fastPath = new FastPath(context);
  try {
    return await fastPath.start();
  } catch (error) {
    await fastPath.stop();
    throw error;
  }
}

/** URLs of the servers. */
interface Endpoints extends Readonly<Record<string, string>> {
  readonly fastpath: string;
}

class FastPath {
  readonly #context: ServerContext;
  readonly #isolation: AgentIsolation;
  readonly #access: FastPathAccess;
  readonly #proxy: ProxySettings | undefined;
  readonly #placement: AgentPlacement;
  readonly #registry = new Registry((agent) => this.#reportLoad(agent));
  readonly #rejected: RejectedCreates;
  readonly #loadListeners = new Set<(pool: { readonly namespace: string; readonly name: string }) => void>();
  readonly #newId = (): string => randomBytes(16).toString("hex");
  readonly #stops: (() => Promise<void>)[] = [];

  constructor(context: ServerContext) {
    this.#context = context;
    this.#rejected = new RejectedCreates(context.clock, ({ namespace, name: pool }) => this.#reportLoad({ namespace, pool }));
    this.#isolation = readIsolation(context.flags);
    this.#access = readAccess(context.flags);
    this.#proxy = readProxy(context.flags);
    this.#placement = placementOf(context.dataDir, imagesFolder(context.dataDir), this.#isolation);
  }

  async start(): Promise<RunningServer> {
    const { dataDir, flags, log, services } = this.#context;
    if (this.#isolation.driver === "bubblewrap" && findBubblewrap() === undefined) {
      log.warn({}, "bwrap not found, so sandboxes cannot start; install it: apt-get install bubblewrap");
    }
    // Known allocations come before new ones.
    this.#restoreAllocations();
    const images = await openUnpackedImages(imagesFolder(dataDir));
    for (const [name, file] of fastPathFlags.image.read(flags)) await images.import(file, { name });
    const { fast, monitor } = await this.#startFleet();
    services.provide(runtimeKey, {
      placement: this.#placement,
      registry: this.#registry,
      rejected: this.#rejected,
      agentClient: (namespace, name) => monitor.client(namespace, name),
      agentStatus: (namespace, name) => monitor.status(namespace, name),
      onLoadChange: (listener) => {
        this.#loadListeners.add(listener);
        return () => void this.#loadListeners.delete(listener);
      },
      isPending: (id) => fast.isPending(id),
    });
    const metrics = createFastPathMetrics(() => this.#warmPools(monitor));
    const token = await ensureToken(fastPathTokenFile(dataDir));
    const metricsUrl = await this.#serveMetrics(metrics, token);
    const served = await this.#serve(fast, monitor, metrics, token);
    return {
      description: `fast path (gRPC) on ${served.fastpath}, ${describeAccess(this.#access, dataDir)}, sandboxes in ${this.#isolation.driver}`,
      endpoints: { ...served, ...(metricsUrl !== undefined && { "fastpath-metrics": metricsUrl }) },
      stop: () => this.stop(),
    };
  }

  async stop(): Promise<void> {
    for (let next = this.#stops.pop(); next !== undefined; next = this.#stops.pop()) await next();
  }

  #reportLoad({ namespace, pool }: { readonly namespace: string; readonly pool: string }): void {
    for (const listener of this.#loadListeners) listener({ namespace, name: pool });
  }

  /** The warm slots of the agents that report. */
  #warmPools(monitor: AgentMonitor): readonly WarmPool[] {
    return this.#context.cache.list(SandboxPool).flatMap(({ metadata: { namespace = "", name: pool } }) => {
      const agents = listAgents(this.#context.cache.list(Pod, { namespace, labelSelector: `${agentLabels.pool}=${pool}` }));
      const statuses = agents.flatMap((agent) => monitor.status(namespace, agent.name)?.warm ?? []);
      return statuses.length === 0 ? [] : [{ namespace, pool, warm: sumWarm(statuses) }];
    });
  }

  #restoreAllocations(): void {
    for (const sandbox of this.#context.cache.list(Sandbox)) {
      if (hasEnded(sandbox)) continue;
      const { status, spec } = sandbox;
      const pod = status?.assignedPod ?? (status?.phase === undefined ? fastPathAllocation(sandbox)?.pod : undefined);
      const { namespace = "", name } = sandbox.metadata;
      if (pod !== undefined) this.#registry.restore(`${namespace}/${name}`, namespace, pod, claimsOf(spec));
    }
  }

  /** Follows the agents, completes what an earlier process left unfinished, and starts the janitors. */
  async #startFleet(): Promise<{ readonly fast: FastCreator; readonly monitor: AgentMonitor }> {
    const { client, cache, clock, log, flags, onChange } = this.#context;
    const protectionMs = fastPathFlags.orphanTimeout.read(flags);
    let monitor: AgentMonitor | undefined;
    const fast = await this.#openFastCreator((namespace, name) => monitor?.client(namespace, name));
    const janitor = new Janitor({ client, clock, log, isPending: (id) => fast.isPending(id), protectionMs });
    const started = new AgentMonitor({
      ...{ registry: this.#registry, client, cache, onChange, clock, log },
      onStatus: (agent, agentClient, status, before) => {
        fast.recover(agent.namespace, agent.name, status);
        janitor.check(agent, agentClient, status);
        if (hasLoadChange(before, status)) this.#reportLoad(agent);
      },
    });
    monitor = started;
    this.#stops.push(() => started.stop());
    // Controllers start after this server: agents that have not reported yet must not look lost to them.
    await started.whenReported(firstReportTimeoutMs);
    const folders = this.#startFolderJanitor();
    fast.settleMissing();
    const unsubscribe = onChange(Pod, ({ type, object }) => {
      if (type !== "delete" || parseAgentPod(object) === undefined) return;
      fast.settleMissing();
      folders?.trigger();
    });
    this.#stops.push(
      () => Promise.resolve(unsubscribe()),
      () => janitor.stop(),
    );
    return { fast, monitor: started };
  }

  async #openFastCreator(agentClient: (namespace: string, name: string) => AgentClient | undefined): Promise<FastCreator> {
    const { client, cache, clock, log, dataDir } = this.#context;
    const intents = await IntentLog.open(join(dataDir, "fastpath-intents.jsonl"));
    this.#stops.push(() => intents.close());
    return new FastCreator({
      ...{ registry: this.#registry, client, clock, log, intents, newId: this.#newId, agentClient },
      podExists: (namespace, name) => cache.get(Pod, { namespace, name }) !== undefined,
    });
  }

  /** `undefined` if agents run in other machines' directories. */
  #startFolderJanitor(): AgentFolderJanitor | undefined {
    const { client, clock, log } = this.#context;
    const { tools } = this.#placement;
    if (tools.kind !== "local") return undefined;
    const folders = new AgentFolderJanitor({ dir: tools.dir, isolation: this.#isolation, client, clock, log });
    this.#stops.push(() => folders.stop());
    folders.trigger();
    return folders;
  }

  async #serveMetrics(metrics: FastPathMetrics, token: string): Promise<string | undefined> {
    const port = fastPathFlags.metricsPort.read(this.#context.flags);
    if (port === undefined) return undefined;
    const probes = createProbeServer({ metrics, access: token });
    const url = await probes.listen(port, fastPathFlags.bindAddress.read(this.#context.flags));
    this.#stops.push(() => probes.stop());
    return url;
  }

  async #serve(fast: FastCreator, monitor: AgentMonitor, metrics: FastPathMetrics, token: string): Promise<Endpoints> {
    const { client, cache, clock, flags, onChange } = this.#context;
    const service = createFastPathService({
      ...{ client, cache, onChange, fast, clock, metrics, strongTimeoutMs, newId: this.#newId },
      onRejected: (pool) => this.#rejected.add(pool),
      defaultMode: fastPathFlags.mode.read(flags),
    });
    const agentClient = (namespace: string, name: string): AgentClient | undefined => monitor.client(namespace, name);
    const domains = this.#proxy === undefined ? [] : [proxyDomain(this.#proxy), `*.${proxyDomain(this.#proxy)}`];
    const tls = await loadTls(this.#context, this.#access, domains);
    const identities = new ClusterIdentities({ client, clock });
    const staticToken = this.#access.acceptsToken ? token : undefined;
    const proxy = await this.#startProxy(tls?.material, staticToken, agentClient);
    const server = await startFastPathServer({
      bindAddress: fastPathFlags.bindAddress.read(flags),
      port: fastPathFlags.port.read(flags),
      authorize: authorizeCalls({ staticToken, identities, clock, isOpen: this.#access.isOpen }),
      tls: tls?.material,
      isTlsRequired: !this.#access.acceptsToken,
      routes(router) {
        router.service(FastPathService, service);
        const streams = { cache, agentClient, pendingOf: (...key: [string, string]) => fast.pendingOf(...key) };
        router.service(SandboxStreams, createStreamsService(streams));
        router.service(SandboxProcesses, createProcessesService(streams));
        const whenWritten = (...key: [string, string]): Promise<void> => fast.whenWritten(...key);
        const ports = { ...streams, clock, onChange, whenWritten, createUrl: proxy?.createUrl };
        router.service(SandboxPorts, createPortsService(ports));
        router.service(SandboxFiles, createFilesService(streams));
        router.service(SandboxUsage, createUsageService({ cache, clock, agentClient }));
        router.service(SandboxVolumes, createVolumesService({ client, cache, onChange, clock }));
        router.service(SandboxLifecycle, createLifecycleService({ client, cache, onChange, clock, agentClient, fast }));
      },
    });
    tls?.serving.follow(tls.material, (material) => {
      server.setTls(material);
      proxy?.proxy.setTls(material);
    });
    this.#stops.push(
      () => fast.stop(),
      () => server.close(),
      () => Promise.resolve(tls?.serving.stop()),
    );
    return { fastpath: server.url, ...(proxy !== undefined && { "sandbox-proxy": proxy.proxy.url }) };
  }

  async #startProxy(
    tls: TlsMaterial | undefined,
    staticToken: string | undefined,
    agentClient: (namespace: string, name: string) => AgentClient | undefined,
  ): Promise<RunningProxy | undefined> {
    if (this.#proxy === undefined) return undefined;
    const running = await startProxy({ settings: this.#proxy, context: this.#context, tls, staticToken, agentClient });
    this.#stops.push(() => running.proxy.close());
    return running;
  }
}
