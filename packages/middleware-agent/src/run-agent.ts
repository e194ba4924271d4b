import { join } from "node:path";
import { AgentTokens } from "./credentials/agent-tokens.ts";
import type { AgentView, EngineDefinition, EngineOptions } from "./engine-definition.ts";
import type { MiddlewareEngine } from "./engine.ts";
import { createPeers } from "./quorum/peers.ts";
import { QuorumAgent } from "./quorum/quorum-agent.ts";
import { QuorumEngine } from "./quorum/quorum-engine.ts";
import { createQuorumStore } from "./quorum/quorum-store.ts";
import { RoleFeed } from "./role-feed.ts";
import type { AgentIdentity } from "./tls/agent-identity.ts";
import type { Certificates, CertificateSource } from "./tls/certificates.ts";
import { CertificateRotation } from "./tls/certificate-rotation.ts";
import { startToolServer, type ToolServer } from "./tool-server.ts";

/** Options of {@link runAgent}. */
export interface AgentOptions extends EngineOptions {
  readonly engine: EngineDefinition;
  /** Port of the gRPC server. */
  readonly agentPort: number;
  readonly token: string;
  /** TLS of the agents: the mounted certificates, in the mode of the program. Undefined: without TLS. */
  readonly certificates?: CertificateSource;
  readonly random: () => number;
  /** Stops the program, then the agent. */
  readonly signal: AbortSignal;
}

/**
 * Runs a middleware program and its agent server until the signal fires or the program exits. Resolves to the exit code: a
 * program that exits by itself is an error, so that the kubelet restarts the container.
 */
export async function runAgent(options: AgentOptions): Promise<number> {
  const { engine: definition, host, agentPort, token, log, signal, dataDir, clock, random, podName } = options;
  const { certificates, tls } = options;
  const identity = (): AgentIdentity | undefined => tls && certificates && { mode: tls.mode, ...certificates.current };
  const tokens = new AgentTokens(join(dataDir, "keelson-tokens.json"), token);
  await tokens.load();
  const program = definition.create(options);
  const initial = [certificates?.current, tls?.certificates.current] as const;
  await startProgram(program, tls?.certificates, log);
  let feed: RoleFeed | undefined;
  const quorum = new QuorumAgent({
    self: podName,
    host,
    engine: program,
    peers: createPeers(agentPort, () => tokens.current, identity),
    store: createQuorumStore(join(dataDir, "keelson-lease.json")),
    ...{ clock, random, log },
    hasController: () => feed?.hasSubscribers ?? false,
  });
  let rotation: CertificateRotation | undefined;
  const engine = new QuorumEngine(program, quorum, host, () => rotation?.hash);
  feed = new RoleFeed(engine, clock);
  await quorum.start();
  const server = await startToolServer({ engine, feed, quorum, program, host, port: agentPort, tokens, identity });
  rotation = startRotation(options, initial, { program, server, feed });
  const service = await definition.serve?.(options, createView(engine, quorum), program);
  const aborted = new Promise<"aborted">((resolve) => {
    if (signal.aborted) resolve("aborted");
    signal.addEventListener("abort", () => resolve("aborted"), { once: true });
  });
  const cause = await Promise.race([aborted, engine.ended]);
  rotation?.stop();
  await Promise.all([server.stop(), service?.stop()]);
  if (cause === "aborted") await engine.stop({ timeoutMs: 20_000, force: true });
  // The program accepts no more writes, so another Pod can have the lease.
  else await quorum.giveUp();
  quorum.stop();
  if (cause === "aborted") return 0;
  log.error({ cause }, "the program exited");
  return 1;
}

/** Starts the program. A failure is recorded: the certificates may be its cause, so the next start may use others. */
async function startProgram(
  program: MiddlewareEngine,
  certificates: CertificateSource | undefined,
  log: AgentOptions["log"],
): Promise<void> {
  try {
    await program.start();
  } catch (error) {
    await certificates?.recordFailure?.().catch((failure: unknown) => {
      log.warn({ err: failure }, "could not record the failed start");
    });
    throw error;
  }
}

/** Uses new certificates for the agent and its program. Undefined without TLS. */
function startRotation(
  { certificates, tls, clock, log }: AgentOptions,
  [agent, own]: readonly [Certificates | undefined, Certificates | undefined],
  { program, server, feed }: { readonly program: MiddlewareEngine; readonly server: ToolServer; readonly feed: RoleFeed },
): CertificateRotation | undefined {
  if (certificates === undefined || tls === undefined || agent === undefined || own === undefined) return undefined;
  return new CertificateRotation({
    servers: [
      { folder: certificates, initial: agent, apply: () => server.rotate() },
      { folder: tls.certificates, initial: own, apply: () => program.reloadCertificates?.() ?? Promise.resolve() },
    ],
    ...{ clock, log },
    onChange: () => void feed.refresh().catch(() => undefined),
  });
}

function createView(engine: QuorumEngine, quorum: QuorumAgent): AgentView {
  let last: string | undefined;
  return {
    async primaryHost() {
      last = (quorum.isActive ? quorum.leader?.host : await followedBy(engine)) ?? last;
      return last;
    },
    members: () => quorum.members.hosts,
    hasQuorum: () => quorum.leader !== undefined,
  };
}

/** Without a quorum, the primary is the one that the own program follows. */
async function followedBy(engine: QuorumEngine): Promise<string | undefined> {
  const { role, info } = await engine.role();
  return role === "primary" || role === "replica" ? info["primaryHost"] : undefined;
}
