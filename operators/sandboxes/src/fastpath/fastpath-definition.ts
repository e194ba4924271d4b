import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Pod } from "@keelson/api-machinery/kinds";
import { readOf } from "@keelson/controller";
import { createProbeServer } from "@keelson/controller/probes";
import type { RunningServer, ServerContext, ServerDefinition } from "@keelson/operator";
import { findBubblewrap, openUnpackedImages } from "@keelson/execution";
import { type AgentMonitor, startAgentMonitor } from "../fleet/agent-monitor.ts";
import { type AgentPlacement, parseAgentPod } from "../fleet/agent-pod.ts";
import { agentProgram } from "../agent/agent-program-path.ts";
import type { AgentIsolation } from "../agent/run-agent.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { ensureToken } from "../bearer-token.ts";
import { sandboxReads } from "../controllers/sandbox.ts";
import { fastPathAllocation, hasEnded } from "../controllers/sandbox-decision.ts";
import { FastCreator } from "./fast-creator.ts";
import { fastPathFlags, readIsolation } from "./fastpath-flags.ts";
import { createFastPathMetrics } from "./fastpath-metrics.ts";
import { startFastPathServer } from "./fastpath-server.ts";
import { FastPathService } from "./generated/fastpath/v1/fastpath_pb.ts";
import { openIntentLog } from "./intent-log.ts";
import { createFastPathService } from "./service.ts";
import { createStreamsService } from "./streams-service.ts";
import { SandboxStreams } from "./generated/keelson/sandboxes/v1/streams_pb.ts";
import { createAgentFolderJanitor, type AgentFolderJanitor } from "../janitor/agent-folders.ts";
import { createJanitor } from "../janitor/janitor.ts";
import { createRegistry } from "../registry/registry.ts";
import { runtimeKey } from "../runtime.ts";

/** File below the operator's data folder with the token of the fast path. */
export const fastPathTokenFile = (dataDir: string): string => join(dataDir, "fastpath-token");

/** Folder below the operator's data folder with the sandboxes' images. */
export const imagesFolder = (dataDir: string): string => join(dataDir, "images");

/** Serves the fast path, monitors agents and runs the janitors. */
export const fastPathServer: ServerDefinition = {
  name: "fastpath",
  flags: Object.values(fastPathFlags),
  reads: [sandboxReads, readOf(SandboxPool), readOf(Pod)],
  // Two instances would allocate the same slots.
  needsLeaderElection: true,
  start,
};

const strongTimeoutMs = 60_000;
/** How long the start waits for agents that do not answer. */
const firstReportTimeoutMs = 3_000;

async function start(context: ServerContext): Promise<RunningServer> {
  const { client, cache, clock, dataDir, flags, log, onChange } = context;
  const mode = fastPathFlags.mode.read(flags);
  const isolation = readIsolation(flags);
  const { driver } = isolation;
  const protectionMs = fastPathFlags.orphanTimeout.read(flags);
  const port = fastPathFlags.port.read(flags);
  const metricsPort = fastPathFlags.metricsPort.read(flags);
  if (driver === "bubblewrap" && findBubblewrap() === undefined) {
    log.warn({}, "bwrap not found, so sandboxes cannot start; install it: apt-get install bubblewrap");
  }
  const registry = createRegistry();
  const newId = (): string => randomBytes(16).toString("hex");

  // Restore known allocations before anything else is allocated.
  for (const sandbox of cache.list(Sandbox)) {
    if (hasEnded(sandbox)) continue;
    const pod =
      sandbox.status?.assignedPod ?? (sandbox.status?.phase === undefined ? fastPathAllocation(sandbox)?.pod : undefined);
    const { namespace = "", name } = sandbox.metadata;
    if (pod !== undefined) registry.restore(`${namespace}/${name}`, namespace, pod, sandbox.spec.exposedPorts ?? []);
  }
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  try {
    const images = await openUnpackedImages(imagesFolder(dataDir));
    for (const [name, file] of fastPathFlags.image.read(flags)) await images.import(file, { name });
    const placement = placementOf(dataDir, isolation);
    const intents = await openIntentLog(join(dataDir, "fastpath-intents.jsonl"));
    stops.push(() => intents.close());
    const monitorOf = (): AgentMonitor | undefined => monitor;
    let monitor: AgentMonitor | undefined;
    const fast = new FastCreator({
      client,
      registry,
      log,
      intents,
      clock,
      newId,
      agentClient: (namespace, name) => monitorOf()?.client(namespace, name),
      podExists: (namespace, name) => cache.get(Pod, { namespace, name }) !== undefined,
    });
    const janitor = createJanitor({ client, clock, log, isPending: (id) => fast.isPending(id), protectionMs });
    monitor = startAgentMonitor({
      registry,
      client,
      cache,
      onChange,
      clock,
      log,
      onStatus(agent, agentClient, status) {
        fast.recover(agent.namespace, agent.name, status);
        janitor.check(agent, agentClient, status);
      },
    });
    const running = monitor;
    stops.push(() => running.stop());
    // Controllers start after this server: agents that have not reported yet must not look lost to them.
    await running.whenReported(firstReportTimeoutMs);
    let folders: AgentFolderJanitor | undefined;
    if (placement.tools.kind === "local") {
      folders = createAgentFolderJanitor({ dir: placement.tools.dir, isolation, client, clock, log });
      const stopFolders = folders.stop;
      stops.push(stopFolders);
      folders.trigger();
    }
    fast.settleMissing();
    const unlisten = onChange(Pod, ({ type, object }) => {
      if (type !== "delete" || parseAgentPod(object) === undefined) return;
      fast.settleMissing();
      folders?.trigger();
    });
    stops.push(() => Promise.resolve(unlisten()));
    stops.push(() => janitor.stop());
    context.services.provide(runtimeKey, {
      placement,
      registry,
      agentClient: running.client,
      agentStatus: running.status,
      isPending: (id) => fast.isPending(id),
    });
    const token = await ensureToken(fastPathTokenFile(dataDir));
    const bindAddress = fastPathFlags.bindAddress.read(flags);
    const metrics = createFastPathMetrics();
    let metricsUrl: string | undefined;
    if (metricsPort !== undefined) {
      const probes = createProbeServer({ metrics, access: token });
      metricsUrl = await probes.listen(metricsPort, bindAddress);
      stops.push(() => probes.stop());
    }
    const server = await startFastPathServer({
      bindAddress,
      port,
      token,
      routes(router) {
        router.service(
          FastPathService,
          createFastPathService({
            client,
            cache,
            onChange,
            fast,
            clock,
            defaultMode: mode,
            metrics,
            newId,
            strongTimeoutMs: strongTimeoutMs,
          }),
        );
        router.service(SandboxStreams, createStreamsService({ cache, agentClient: running.client }));
      },
    });
    stops.push(
      () => fast.stop(),
      () => server.close(),
    );
    return {
      description: `fast path (gRPC) on ${server.url}, token in ${fastPathTokenFile(dataDir)}, sandboxes in ${driver}`,
      endpoints: { fastpath: server.url, ...(metricsUrl !== undefined && { "fastpath-metrics": metricsUrl }) },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** How agents run: as containers of Keelson's image in a cluster, otherwise from this installation. */
function placementOf(dataDir: string, isolation: AgentIsolation): AgentPlacement {
  const image = process.env.KEELSON_IMAGE;
  if (image) return { ...isolation, tools: { kind: "image", image } };
  const command = [process.execPath, agentProgram];
  return { ...isolation, tools: { kind: "local", command, dir: join(dataDir, "agents"), imageDir: imagesFolder(dataDir) } };
}
