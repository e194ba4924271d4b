import { join } from "node:path";
import type { Logger } from "@keelson/controller";
import { createPeers } from "./quorum/peers.ts";
import { QuorumAgent } from "./quorum/quorum-agent.ts";
import { QuorumEngine } from "./quorum/quorum-engine.ts";
import { createQuorumStore } from "./quorum/quorum-store.ts";
import { RedisEngine, type RedisEngineOptions } from "./redis/redis-engine.ts";
import { RoleFeed } from "./role-feed.ts";
import { SentinelServer } from "./sentinel/sentinel-server.ts";
import type { Topology } from "./sentinel/sentinel-commands.ts";
import { startToolServer } from "./tool-server.ts";

/** Options of {@link runAgent}. */
export interface AgentOptions extends RedisEngineOptions {
  /** Name of the Pod. */
  readonly podName: string;
  /** Port of the gRPC server. */
  readonly agentPort: number;
  /** Port of the Sentinel protocol. */
  readonly sentinelPort: number;
  readonly token: string;
  readonly random: () => number;
  readonly log: Logger;
  /** Stops the program, then the agent. */
  readonly signal: AbortSignal;
}

/**
 * Runs a middleware program and its agent server until the signal fires or the program exits. Resolves to the exit code: a
 * program that exits by itself is an error, so that the kubelet restarts the container.
 */
export async function runAgent(options: AgentOptions): Promise<number> {
  const { host, agentPort, token, log, signal, dataDir, clock, random, podName } = options;
  const redis = new RedisEngine(options);
  await redis.start();
  let feed: RoleFeed | undefined;
  const quorum = new QuorumAgent({
    self: podName,
    host,
    engine: redis,
    peers: createPeers(agentPort, token),
    store: createQuorumStore(join(dataDir, "keelson-lease.json")),
    ...{ clock, random, log },
    hasController: () => feed?.hasSubscribers ?? false,
  });
  const engine = new QuorumEngine(redis, quorum, host);
  feed = new RoleFeed(engine, clock);
  await quorum.start();
  const server = await startToolServer({ engine, feed, quorum, snapshots: redis.snapshots, host, port: agentPort, token });
  const sentinel = await SentinelServer.start({
    ...{ host, clock, port: options.sentinelPort, password: options.password },
    topology: createTopology(options, engine, quorum),
  });
  const aborted = new Promise<"aborted">((resolve) => {
    if (signal.aborted) resolve("aborted");
    signal.addEventListener("abort", () => resolve("aborted"), { once: true });
  });
  const cause = await Promise.race([aborted, engine.ended]);
  await Promise.all([server.stop(), sentinel.stop()]);
  if (cause === "aborted") await engine.stop({ timeoutMs: 20_000, force: true });
  // The program accepts no writes any more, so another Pod can have the lease.
  else await quorum.giveUp();
  quorum.stop();
  if (cause === "aborted") return 0;
  log.error({ cause }, "the program exited");
  return 1;
}

/** The primary that the agents know. Without a quorum, the one that the own program follows. */
function createTopology(
  { host, port, sentinelPort, podName }: AgentOptions,
  engine: QuorumEngine,
  quorum: QuorumAgent,
): () => Promise<Topology> {
  let last: string | undefined;
  return async () => {
    const hosts = Object.values(quorum.members.hosts);
    last = (quorum.isActive ? quorum.leader?.host : await followedBy(engine)) ?? last;
    return {
      name: podName.replace(/-\d+$/, ""),
      primary: last,
      replicas: hosts.filter((each) => each !== last),
      peers: hosts.filter((each) => each !== host),
      ...{ port, sentinelPort },
      hasQuorum: quorum.leader !== undefined,
    };
  };
}

async function followedBy(engine: QuorumEngine): Promise<string | undefined> {
  const { role, info } = await engine.role();
  return role === "primary" || role === "replica" ? info["primaryHost"] : undefined;
}
