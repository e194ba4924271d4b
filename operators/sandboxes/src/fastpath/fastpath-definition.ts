import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Pod } from "@keelson/api-machinery/kinds";
import { createProbeServer, readOf } from "@keelson/controller";
import { type FlagValues, type RunningServer, type ServerContext, type ServerDefinition } from "@keelson/operator";
import { choiceFlag, durationFlag, invalidFlag, pairsFlag, portFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { findBubblewrap, openUnpackedImages } from "@keelson/execution";
import { type AgentMonitor, startAgentMonitor } from "../fleet/agent-monitor.ts";
import { type AgentPlacement, agentOfPod } from "../fleet/agent-pod.ts";
import { agentProgram } from "../agent/agent-program-path.ts";
import { agentDrivers, type AgentIsolation } from "../agent/run-agent.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { ensureToken } from "../bearer-token.ts";
import { sandboxReads } from "../controllers/sandbox.ts";
import { fastPathPlace, hasEnded } from "../controllers/sandbox-decision.ts";
import { createFastCreator } from "./fast-creator.ts";
import { createFastPathMetrics } from "./fastpath-metrics.ts";
import { startFastPathServer } from "./fastpath-server.ts";
import { FastPathService } from "./generated/fastpath/v1/fastpath_pb.ts";
import { openIntentLog } from "./intent-log.ts";
import { createFastPathService } from "./service.ts";
import { createStreamsService } from "./streams-service.ts";
import { SandboxStreams } from "./generated/keelson/sandboxes/v1/streams_pb.ts";
import { createFolderJanitor, type FolderJanitor } from "../janitor/agent-folders.ts";
import { createJanitor } from "../janitor/janitor.ts";
import { createRegistry } from "../registry/registry.ts";
import { runtimeKey } from "../runtime.ts";

/** File, below the operator's data folder, with the token that callers of the fast path need. */
export const fastPathTokenFile = (dataDir: string): string => join(dataDir, "fastpath-token");

/** Folder, below the operator's data folder, with the images that sandboxes start from. */
export const imagesFolder = (dataDir: string): string => join(dataDir, "images");

const flags = {
  bindAddress: textFlag({
    name: "fastpath-bind-address",
    value: "ADDRESS",
    description: "address of the sandboxes' gRPC server",
    default: "127.0.0.1",
  }),
  port: portFlag({ name: "fastpath-port", description: "its port; 0 picks a free one", default: "9090" }),
  metricsPort: portFlag({
    name: "fastpath-metrics-port",
    description: "port of its metrics, on the same address (default: none; 9091 is the original's)",
  }),
  consistencyMode: choiceFlag({
    name: "fastpath-consistency-mode",
    value: "MODE",
    description: "default consistency mode of a create: fast (agent first) or strong (API first)",
    choices: ["fast", "strong"],
    default: "fast",
  }),
  orphanTimeout: durationFlag({
    name: "fastpath-orphan-timeout",
    description: "how old a sandbox without an object has to be before it is ended, in seconds",
    bareUnit: "s",
    default: "10s",
  }),
  image: pairsFlag({
    name: "sandbox-image",
    value: "NAME=FILE",
    description: "OCI archive that is unpacked at the start, under this name",
  }),
  driver: choiceFlag({
    name: "sandbox-driver",
    value: "NAME",
    description: "what isolates sandboxes: bubblewrap, containerd, or process (no isolation at all)",
    choices: agentDrivers,
    default: "bubblewrap",
  }),
  containerdSocket: textFlag({
    name: "sandbox-containerd-socket",
    value: "PATH",
    description: "where the agents' machines have containerd (default: /run/containerd/containerd.sock)",
  }),
};

/** The fast path, what listens to agents, and the janitors. */
export const fastPathServer: ServerDefinition = {
  name: "fastpath",
  flags: Object.values(flags),
  reads: [sandboxReads, readOf(SandboxPool), readOf(Pod)],
  // Two of them would give the same places away twice.
  needsLeaderElection: true,
  start,
};

const mostStrongMs = 60_000;
/** How long a start waits for agents that do not answer. */
const longestFirstWordMs = 3_000;

async function start(context: ServerContext): Promise<RunningServer> {
  const { client, cache, clock, dataDir, log, onChange } = context;
  const mode = flags.consistencyMode.read(context.flags);
  const isolation = isolationOf(context.flags);
  const { driver } = isolation;
  const protectionMs = flags.orphanTimeout.read(context.flags);
  const port = flags.port.read(context.flags);
  const metricsPort = flags.metricsPort.read(context.flags);
  if (driver === "bubblewrap" && findBubblewrap() === undefined) {
    log.warn({}, "there is no bwrap on this machine, so no sandbox can start: apt-get install bubblewrap");
  }
  const registry = createRegistry();
  const newId = (): string => randomBytes(16).toString("hex");

  // What is known to be taken comes first: nothing is given away before that.
  for (const sandbox of cache.list(Sandbox)) {
    if (hasEnded(sandbox)) continue;
    const pod = sandbox.status?.assignedPod ?? (sandbox.status?.phase === undefined ? fastPathPlace(sandbox)?.pod : undefined);
    const { namespace = "", name } = sandbox.metadata;
    if (pod !== undefined) registry.restore(`${namespace}/${name}`, namespace, pod, sandbox.spec.exposedPorts ?? []);
  }
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  try {
    const images = await openUnpackedImages(imagesFolder(dataDir));
    for (const [name, file] of flags.image.read(context.flags)) await images.import(file, { name });
    const placement = placementOf(dataDir, isolation);
    const intents = await openIntentLog(join(dataDir, "fastpath-intents.jsonl"));
    stops.push(() => intents.close());
    const monitorOf = (): AgentMonitor | undefined => monitor;
    let monitor: AgentMonitor | undefined;
    const fast = createFastCreator({
      client,
      registry,
      log,
      intents,
      clock,
      newId,
      agentClient: (namespace, name) => monitorOf()?.client(namespace, name),
      isThere: (namespace, name) => cache.get(Pod, { namespace, name }) !== undefined,
    });
    const janitor = createJanitor({ client, clock, log, isInHand: fast.isInHand, protectionMs });
    monitor = startAgentMonitor({
      registry,
      client,
      cache,
      onChange,
      clock,
      log,
      onStatus(agent, agentClient, status) {
        fast.recover(agent.namespace, agent.name, status);
        janitor.look(agent, agentClient, status);
      },
    });
    const running = monitor;
    stops.push(() => running.stop());
    // Controllers start after this server: what runs well is not to look lost for as long as nobody has asked.
    await running.heardOf(longestFirstWordMs);
    let folders: FolderJanitor | undefined;
    if (placement.tools.kind === "local") {
      folders = createFolderJanitor({ dir: placement.tools.dir, isolation, client, clock, log });
      const stopFolders = folders.stop;
      stops.push(stopFolders);
      folders.look();
    }
    fast.forgetMissing();
    const unlisten = onChange(Pod, ({ type, object }) => {
      if (type !== "delete" || agentOfPod(object) === undefined) return;
      fast.forgetMissing();
      folders?.look();
    });
    stops.push(() => Promise.resolve(unlisten()));
    stops.push(() => janitor.stop());
    context.services.provide(runtimeKey, {
      placement,
      registry,
      agentClient: running.client,
      agentStatus: running.status,
      isInHand: fast.isInHand,
    });
    const token = await ensureToken(fastPathTokenFile(dataDir));
    const bindAddress = flags.bindAddress.read(context.flags);
    const metrics = createFastPathMetrics();
    let metricsUrl: string | undefined;
    if (metricsPort !== undefined) {
      const probes = createProbeServer({ metrics });
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
            strongTimeoutMs: mostStrongMs,
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

/** Where agents run: as containers of Keelson's image in a cluster, else from this very installation. */
function placementOf(dataDir: string, isolation: AgentIsolation): AgentPlacement {
  const image = process.env.KEELSON_IMAGE;
  if (image) return { ...isolation, tools: { kind: "image", image } };
  const command = [process.execPath, agentProgram];
  return { ...isolation, tools: { kind: "local", command, dir: join(dataDir, "agents"), imageDir: imagesFolder(dataDir) } };
}

function isolationOf(values: FlagValues): AgentIsolation {
  const driver = flags.driver.read(values);
  const containerdSocket = flags.containerdSocket.read(values);
  if (containerdSocket === undefined) return { driver };
  if (driver !== "containerd") throw new UsageError("--sandbox-containerd-socket: requires --sandbox-driver containerd");
  if (!containerdSocket.startsWith("/"))
    throw invalidFlag(flags.containerdSocket, containerdSocket, "must be an absolute path");
  return { driver, containerdSocket };
}
