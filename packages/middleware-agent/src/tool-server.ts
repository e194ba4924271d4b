import { createServer } from "node:http2";
import { TLSSocket } from "node:tls";
import { isDuration, parseDuration } from "@keelson/api-machinery/time";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ToolInvoker } from "./agent2.generated.ts";
import type { AgentTokens } from "./credentials/agent-tokens.ts";
import { createCredentialTools } from "./credentials/credential-tools.ts";
import type { Engine, EngineRole, MiddlewareEngine } from "./engine.ts";
import { decodeRequest } from "./quorum/peers.ts";
import type { QuorumAgent } from "./quorum/quorum-agent.ts";
import type { LogEngine } from "./log/log-engine.ts";
import { createLogTools } from "./log/log-tools.ts";
import { createMetricTools } from "./metrics/metric-tools.ts";
import type { RoleFeed } from "./role-feed.ts";
import type { SnapshotEngine } from "./snapshot/snapshot-engine.ts";
import { createSnapshotTools } from "./snapshot/snapshot-tools.ts";
import { type AgentIdentity, isSameAgent, serverOptions } from "./tls/agent-identity.ts";
import { TlsServer } from "./tls/tls-server.ts";
import { createUpgradeTools } from "./upgrade/upgrade-tools.ts";
import { isProgramError } from "./program/program-error.ts";

/** A running agent server ({@link ToolInvoker}). */
export interface ToolServer {
  readonly port: number;
  /** Uses the current identity for later connections. */
  rotate(): void;
  stop(): Promise<void>;
}

/** Options of {@link startToolServer}. */
export interface ToolServerOptions {
  readonly engine: Engine;
  readonly feed: RoleFeed;
  readonly quorum: QuorumAgent;
  /** Serves what is optional: methods of parts that it lacks are unimplemented. */
  readonly program: Pick<MiddlewareEngine, "snapshots" | "log" | "metrics" | "credentials" | "upgrades">;
  readonly host: string;
  readonly port: number;
  readonly tokens: AgentTokens;
  /** The certificate of this agent. Undefined: without TLS. */
  readonly identity: () => AgentIdentity | undefined;
}

/** Serves an engine over gRPC to callers that know a token and, over TLS, have a certificate of this App's agents. */
export async function startToolServer(options: ToolServerOptions): Promise<ToolServer> {
  const { host, port, tokens, identity } = options;
  const handler = connectNodeAdapter({
    interceptors: [tokens.interceptor],
    routes: (router) => void router.service(ToolInvoker, createTools(options)),
  });
  const http = createServer(handler);
  // A failed connection, or bytes that are not HTTP/2.
  http.on("sessionError", () => undefined);
  let isStopping = false;
  const initial = identity();
  const server = new TlsServer({
    tls: initial && { mode: initial.mode, options: serverOptions(initial) },
    onConnection(socket) {
      const own = identity();
      const isStranger = own !== undefined && socket instanceof TLSSocket && !isSameAgent(own, socket.getPeerCertificate());
      // A connection that waited while this agent was frozen would keep it alive.
      if (isStopping || isStranger) socket.destroy();
      else http.emit("connection", socket);
    },
  });
  await server.listen(port, host);
  return {
    port: server.port,
    rotate() {
      const own = identity();
      if (own !== undefined) server.setCertificates(serverOptions(own));
    },
    async stop() {
      isStopping = true;
      await server.stop();
    },
  };
}

function createTools({ engine, feed, quorum, program, tokens }: ToolServerOptions): Partial<ServiceImpl<typeof ToolInvoker>> {
  /** Publishes the role after a call that may have changed it. */
  const performing = async <T>(act: () => Promise<T>): Promise<T> => {
    try {
      return await answering(act);
    } finally {
      void feed.refresh().catch(() => undefined);
    }
  };
  return {
    ...tokens.tools,
    ...createDataTools(program.snapshots, program.log),
    ...createMetricTools(program),
    ...createCredentialTools(program.credentials, performing),
    ...(program.upgrades === undefined ? {} : createUpgradeTools(program.upgrades, performing)),
    getGroupOrder: (request) => ({ order: [...request.groups].reverse(), concurrent: false }),
    getPodOrder: ({ scenario, pods, roles }) => ({ order: podOrder(scenario, pods, roles), concurrent: false }),
    getRole: async () => answerOf(await answering(() => feed.refresh()), tokens),
    async *watchRole(_request, { signal }) {
      for await (const role of feed.changes(signal)) yield answerOf(role, tokens);
    },
    async reloadConfig({ parameters, configHash }) {
      const outcome = await performing(() => engine.reload(parameters, configHash));
      if (outcome.ok === "restart")
        return { success: false, requiresRestart: true, restartParameters: [...outcome.parameters] };
      return outcome.ok ? { success: true } : { success: false, error: outcome.error };
    },
    async failover({ targetHost, others, epoch, timeout, primaryIsDown, replicas }) {
      const order = {
        target: targetHost,
        others: others.map((other) => other.host),
        epoch: Number(epoch),
        timeoutMs: durationOf(timeout, 5_000),
        isPrimaryDown: primaryIsDown,
        ...(replicas === 0 ? {} : { replicas }),
      };
      const outcome = await performing(() => engine.failover(order));
      const { role } = await answering(() => engine.role());
      if (outcome.ok) return { success: true, previousRole: "primary", currentRole: role };
      return { success: false, error: outcome.error, currentRole: role, mustTerminate: outcome.mustTerminate ?? false };
    },
    async assignRole({ role, primaryHost, epoch }) {
      if (role !== "primary" && role !== "replica")
        throw new ConnectError("role: must be primary or replica", Code.InvalidArgument);
      const outcome = await performing(() => engine.assign({ role, primaryHost, epoch: Number(epoch) }));
      return { success: outcome.ok, error: outcome.ok ? "" : outcome.error };
    },
    ...createQuorumTools(quorum, performing),
    async stop({ timeout, force, removed: isRemoved }) {
      const outcome = await performing(() => engine.stop({ timeoutMs: durationOf(timeout, 10_000), force, isRemoved }));
      return { success: outcome.ok, error: outcome.ok ? "" : outcome.error };
    },
  };
}

/** Methods of a quorum. */
function createQuorumTools(
  quorum: QuorumAgent,
  performing: <T>(act: () => Promise<T>) => Promise<T>,
): Pick<ServiceImpl<typeof ToolInvoker>, "setMembers" | "requestLease"> {
  return {
    async setMembers({ key, members, maxLagBytes }) {
      const hosts = Object.fromEntries(members.map(({ name, host }) => [name, host]));
      const outcome = await performing(() => quorum.setMembers({ key, hosts, maxLagBytes: Number(maxLagBytes) }));
      return { success: outcome.ok, error: outcome.ok ? "" : outcome.error };
    },
    async requestLease(message) {
      const request = decodeRequest(message);
      if (request === undefined)
        throw new ConnectError("kind: must be form, poll, stand, renew, release or hello", Code.InvalidArgument);
      const { isGranted, epoch, reason } = await quorum.answer(request);
      return { granted: isGranted, epoch: BigInt(epoch), reason: reason ?? "" };
    },
  };
}

/** Methods of programs with snapshots and with a log. */
function createDataTools(snapshots: SnapshotEngine | undefined, log: LogEngine | undefined) {
  return {
    ...(snapshots === undefined ? {} : createSnapshotTools(snapshots)),
    ...(log === undefined ? {} : createLogTools(log, snapshots)),
  };
}

/** Replicas come before the primary, except when a Group starts. */
function podOrder(scenario: string, pods: readonly string[], roles: Readonly<Record<string, string>>): string[] {
  if (scenario === "provision" || scenario === "start") return [...pods];
  const replicas = pods.filter((pod) => roles[pod] !== "primary").reverse();
  return [...replicas, ...pods.filter((pod) => roles[pod] === "primary")];
}

/** Version of the protocol, reported in `extra_info.protocol`. It grows when an answer changes its meaning; additions keep it. */
export const protocolVersion = 1;

/** Status code for a program that does not answer its agent, unlike an agent that cannot be reached. */
export const unresponsive = Code.Aborted;

function answerOf({ role, info }: EngineRole, tokens: AgentTokens) {
  const extraInfo = { ...info, ...tokens.info, protocol: String(protocolVersion) };
  return { role, isLeader: role === "primary", extraInfo };
}

async function answering<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (isProgramError(error)) throw new ConnectError(error.message, unresponsive);
    throw error;
  }
}

function durationOf(text: string, fallback: number): number {
  return isDuration(text) ? Math.min(parseDuration(text), 60_000) : fallback;
}
