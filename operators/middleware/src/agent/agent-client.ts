import { type CallOptions, type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Clock, sleep, systemClock } from "@keelson/api-machinery/time";
import type { MetricFamily } from "@keelson/controller/metrics";
import type { AgentAccess } from "../controllers/agent-access.ts";
import type { Call, CallResult } from "../controllers/effect.ts";
import type { Role } from "../controllers/group/observation.ts";
import { roleOf } from "./role-of.ts";
import { AgentSessions, ToolInvoker, unresponsive } from "@keelson/middleware-agent/protocol";

/** gRPC port of agents. */
const agentPort = 50_052;

/** Client of all agents, with one connection per Pod. */
export interface AgentClient {
  /** `timeoutMs`: default that of the client. */
  call(ip: string, access: AgentAccess, call: Call, timeoutMs?: number): Promise<CallResult>;
  /** The state of a Pod; undefined if its agent does not respond, role `unknown` if its program does not. */
  role(ip: string, access: AgentAccess, signal?: AbortSignal): Promise<Role | undefined>;
  /** Metrics of the program of a Pod; undefined if its agent does not respond or has none. */
  metrics(ip: string, access: AgentAccess, signal?: AbortSignal): Promise<readonly MetricFamily[] | undefined>;
  /** Calls `onChange` when the state of a Pod may have changed or its agent was lost, until the signal fires. */
  watch(ip: string, access: AgentAccess, onChange: () => void, signal: AbortSignal): void;
  close(): void;
}

/** Exponential backoff between attempts to watch an agent. */
const initialReconnectMs = 50;
const maxReconnectMs = 5_000;

/** Options of {@link createAgentClient}. */
export interface AgentClientOptions {
  /** Timeout of a call. Default 30000. */
  readonly timeoutMs?: number;
  /** Timeout of {@link AgentClient.role}. Default 1000. */
  readonly roleTimeoutMs?: number;
  /** Port of the programs that the agents manage. Default 6379. */
  readonly programPort?: number;
  readonly clock?: Clock;
}

/** Creates an {@link AgentClient}. */
export function createAgentClient(options: AgentClientOptions = {}): AgentClient {
  return new GrpcAgentClient(options);
}

type Tools = Client<typeof ToolInvoker>;

/** A scrape may take 5 s. */
const metricsTimeoutMs = 3_000;
/** Answers are small, and an agent is not trusted with the operator's memory. */
const maxAnswerBytes = 4 * 1024 * 1024;

/** The connection to an agent, and how it was last reached. */
interface Connection {
  readonly tools: Tools;
  readonly sessions: AgentSessions;
  access: AgentAccess;
}

/** Restarted Pods have new addresses, so the oldest connections are evicted. */
const maxConnections = 1_000;

class GrpcAgentClient implements AgentClient {
  readonly #timeoutMs: number;
  readonly #roleTimeoutMs: number;
  readonly #programPort: number;
  readonly #clock: Clock;
  readonly #connections = new Map<string, Connection>();

  constructor({ timeoutMs = 30_000, roleTimeoutMs = 1_000, programPort = 6_379, clock = systemClock }: AgentClientOptions) {
    this.#timeoutMs = timeoutMs;
    this.#roleTimeoutMs = roleTimeoutMs;
    this.#programPort = programPort;
    this.#clock = clock;
  }

  async call(ip: string, access: AgentAccess, call: Call, timeoutMs = this.#timeoutMs): Promise<CallResult> {
    const options = { headers: authorization(access), timeoutMs };
    try {
      return await perform(this.#toolsOf(ip, access), call, this.#programPort, options);
    } catch (error) {
      const { code, rawMessage } = ConnectError.from(error);
      if (code === Code.Unimplemented && call.method === "CheckUpgrade")
        return { kind: "refused", message: "the agent cannot upgrade the data of its program" };
      if (code === Code.InvalidArgument || code === Code.Unauthenticated) return { kind: "refused", message: rawMessage };
      return { kind: "unreachable", message: rawMessage };
    }
  }

  async role(ip: string, access: AgentAccess, signal?: AbortSignal): Promise<Role | undefined> {
    const options = { headers: authorization(access), timeoutMs: this.#roleTimeoutMs, ...(signal ? { signal } : {}) };
    try {
      const { role, extraInfo } = await this.#toolsOf(ip, access).getRole({}, options);
      return role === "stopped" ? undefined : roleOf(role, extraInfo);
    } catch (error) {
      if (ConnectError.from(error).code !== unresponsive) return undefined;
      return { role: "unknown", isInSync: false };
    }
  }

  async metrics(ip: string, access: AgentAccess, signal?: AbortSignal): Promise<readonly MetricFamily[] | undefined> {
    const options = { headers: authorization(access), timeoutMs: metricsTimeoutMs, ...(signal ? { signal } : {}) };
    try {
      const { families } = await this.#toolsOf(ip, access).metrics({}, options);
      return families.map(({ name, help, type, samples }) => ({
        ...{ name, help, type: type === "counter" ? "counter" : "gauge" },
        samples: samples.map(({ labels, value }) => ({ labels, value })),
      }));
    } catch {
      // Agents without metrics reject the call; others are reported by `keelson_middleware_pod_up`.
      return undefined;
    }
  }

  watch(ip: string, access: AgentAccess, onChange: () => void, signal: AbortSignal): void {
    void watchRole(() => this.#connectionOf(ip, access), onChange, signal, this.#clock);
  }

  close(): void {
    for (const { sessions } of this.#connections.values()) sessions.abort();
    this.#connections.clear();
  }

  /** Later connections use this access, whose certificates may have been rotated. */
  #toolsOf(ip: string, access: AgentAccess): Tools {
    const connection = this.#connectionOf(ip, access);
    connection.access = access;
    return connection.tools;
  }

  /** The connection to an agent. A watch, whose access may be old, uses that of later calls. */
  #connectionOf(ip: string, access: AgentAccess): Connection {
    const known = this.#connections.get(ip);
    if (known) return known;
    const sessions = new AgentSessions({
      ...{ host: ip, port: agentPort },
      identity: () => connection.access.identity,
      idleConnectionTimeoutMs: 30_000,
      // A frozen Pod sends nothing: its connection is dropped after interval and timeout.
      pingIntervalMs: 2_000,
      pingTimeoutMs: 2_000,
    });
    const transport = { baseUrl: sessions.authority, sessionManager: sessions, readMaxBytes: maxAnswerBytes };
    const connection: Connection = { tools: createClient(ToolInvoker, createGrpcTransport(transport)), sessions, access };
    this.#connections.set(ip, connection);
    const [oldest] = this.#connections;
    if (this.#connections.size > maxConnections && oldest) {
      oldest[1].sessions.abort();
      this.#connections.delete(oldest[0]);
    }
    return connection;
  }
}

const authorization = ({ token }: AgentAccess): Readonly<Record<string, string>> => ({ authorization: `Bearer ${token}` });

async function perform(tools: Tools, call: Call, programPort: number, options: CallOptions): Promise<CallResult> {
  switch (call.method) {
    case "GetGroupOrder": {
      const { component: componentName, scenario, groups } = call;
      return orderOf(await tools.getGroupOrder({ componentName, scenario, groups: [...groups] }, options));
    }
    case "GetPodOrder": {
      const { group: groupName, scenario, pods, roles } = call;
      return orderOf(await tools.getPodOrder({ groupName, scenario, pods: [...pods], roles: { ...roles } }, options));
    }
    case "ReloadConfig": {
      const { parameters, hash: configHash, token } = call;
      const request = { configType: "parameters", parameters: { ...parameters }, configHash, token };
      const answer = await tools.reloadConfig(request, options);
      return answer.requiresRestart ? { kind: "restart", parameters: answer.restartParameters } : outcomeOf(answer);
    }
    case "Failover": {
      const { target: targetHost, token, isPrimaryDown = false, replicas = 0 } = call;
      const others = call.others.map((host) => ({ host, port: programPort }));
      const state = { epoch: BigInt(call.epoch), primaryIsDown: isPrimaryDown, replicas };
      const request = { timeout: "5s", targetHost, targetPort: programPort, others, token, ...state };
      return outcomeOf(await tools.failover(request, options));
    }
    case "AssignRole": {
      const { role, primary: primaryHost, token } = call;
      const epoch = BigInt(call.epoch);
      return outcomeOf(await tools.assignRole({ role, primaryHost, primaryPort: programPort, epoch, token }, options));
    }
    case "SetMembers": {
      const { key, maxLagBytes, token } = call;
      const members = call.members.map(({ name, host }) => ({ name, host }));
      return outcomeOf(await tools.setMembers({ key, members, maxLagBytes: BigInt(maxLagBytes), token }, options));
    }
    case "SetLogArchive": {
      const { enabled, token } = call;
      return outcomeOf(await tools.setLogArchive({ enabled, token }, options));
    }
    case "SetCredentials": {
      return outcomeOf(await tools.setCredentials(credentialsRequest(call), options));
    }
    case "SetTokens": {
      const { sequence, id, agentToken: token, tokenHashes } = call;
      const request = { sequence: BigInt(sequence), id, token, tokenHashes: [...tokenHashes] };
      return outcomeOf(await tools.setTokens(request, options));
    }
    case "CheckUpgrade":
      return outcomeOf(await tools.checkUpgrade({ version: call.version, token: call.token }, options));
    case "UpgradeData":
      return outcomeOf(await tools.upgradeData({ token: call.token }, options));
    case "Stop": {
      const { token, isRemoved: removed = false } = call;
      const reason = `the Pod is being ${removed ? "removed" : "replaced"}`;
      const request = { timeout: "10s", force: false, reason, token, removed };
      return outcomeOf(await tools.stop(request, options));
    }
  }
}

function credentialsRequest({
  sequence,
  id,
  password,
  login = "",
  users,
}: Extract<Call, { readonly method: "SetCredentials" }>) {
  return {
    ...{ sequence: BigInt(sequence), id, password, login },
    users: users.map(({ name, rules, passwordHashes, logins = [] }) => ({
      name,
      rules: [...rules],
      passwordHashes: [...passwordHashes],
      logins: logins.map((each) => ({ name: each.name, verifier: each.verifier })),
    })),
  };
}

function orderOf({ concurrent, order }: { readonly concurrent: boolean; readonly order: readonly string[] }): CallResult {
  return { kind: "order", order: concurrent ? [] : order };
}

function outcomeOf(answer: { success: boolean; error: string; mustTerminate?: boolean }): CallResult {
  if (answer.success) return { kind: "done" };
  return { kind: "refused", message: answer.error, ...(answer.mustTerminate ? { mustTerminate: true } : {}) };
}

/** Watches one agent until the signal fires. Reconnects after a failure. */
async function watchRole(connect: () => Connection, onChange: () => void, signal: AbortSignal, clock: Clock): Promise<void> {
  let waitMs = initialReconnectMs;
  while (!signal.aborted) {
    let wasConnected = false;
    try {
      // A later call may have brought a newer token.
      const { tools, access } = connect();
      for await (const _ of tools.watchRole({}, { headers: authorization(access), signal })) {
        wasConnected = true;
        waitMs = initialReconnectMs;
        onChange();
      }
    } catch {
      // Whatever the failure, the agent cannot be reached.
    }
    if (signal.aborted) return;
    if (wasConnected) onChange();
    await sleep(clock, waitMs, signal).catch(() => undefined);
    waitMs = Math.min(waitMs * 2, maxReconnectMs);
  }
}
