import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { type Clock, sleep, systemClock } from "@keelson/api-machinery/time";
import type { Call, CallResult } from "../controllers/effect.ts";
import type { Role } from "../controllers/group/observation.ts";
import { ToolInvoker } from "./agent2.generated.ts";
import { unresponsive } from "./tool-server.ts";

/** gRPC port of agents. */
const agentPort = 50_052;

/** Client of all agents, with one connection per Pod. */
export interface AgentClient {
  call(ip: string, token: string, call: Call): Promise<CallResult>;
  /** The state of a Pod; undefined if its agent does not respond, role `unknown` if its program does not. */
  role(ip: string, token: string, signal?: AbortSignal): Promise<Role | undefined>;
  /** Calls `onChange` when the state of a Pod may have changed or its agent was lost, until the signal fires. */
  watch(ip: string, token: string, onChange: () => void, signal: AbortSignal): void;
  close(): void;
}

/** Exponential backoff between attempts to watch an agent. */
const initialReconnectMs = 50;
const maxReconnectMs = 5_000;

/** Creates an {@link AgentClient}. `timeoutMs` is the timeout of a call. */
export function createAgentClient({
  timeoutMs = 30_000,
  roleTimeoutMs = 1_000,
  programPort = 6_379,
  clock = systemClock,
}: {
  readonly timeoutMs?: number;
  readonly roleTimeoutMs?: number;
  readonly programPort?: number;
  readonly clock?: Clock;
} = {}): AgentClient {
  const connections = new Map<
    string,
    { readonly client: Client<typeof ToolInvoker>; readonly sessions: Http2SessionManager }
  >();
  const clientOf = (ip: string): Client<typeof ToolInvoker> => {
    const known = connections.get(ip);
    if (known) return known.client;
    const baseUrl = `http://${ip.includes(":") ? `[${ip}]` : ip}:${agentPort}`;
    const sessions = new Http2SessionManager(baseUrl, {
      idleConnectionTimeoutMs: 30_000,
      // A frozen Pod sends nothing: its connection is dropped after interval and timeout.
      pingIntervalMs: 2_000,
      pingTimeoutMs: 2_000,
    });
    const client = createClient(ToolInvoker, createGrpcTransport({ baseUrl, sessionManager: sessions }));
    connections.set(ip, { client, sessions });
    // Restarted Pods have new addresses: evict the oldest.
    const [oldest] = connections;
    if (connections.size > 1_000 && oldest) {
      oldest[1].sessions.abort();
      connections.delete(oldest[0]);
    }
    return client;
  };
  const options = (token: string, ms = timeoutMs) => ({ headers: { authorization: `Bearer ${token}` }, timeoutMs: ms });
  const outcome = (answer: { success: boolean; error: string; mustTerminate?: boolean }): CallResult => {
    if (answer.success) return { kind: "done" };
    return { kind: "refused", message: answer.error, ...(answer.mustTerminate ? { mustTerminate: true } : {}) };
  };

  async function perform(ip: string, token: string, call: Call): Promise<CallResult> {
    const client = clientOf(ip);
    switch (call.method) {
      case "GetGroupOrder": {
        const answer = await client.getGroupOrder(
          { componentName: call.component, scenario: call.scenario, groups: [...call.groups] },
          options(token),
        );
        return { kind: "order", order: answer.concurrent ? [] : answer.order };
      }
      case "GetPodOrder": {
        const answer = await client.getPodOrder(
          { groupName: call.group, scenario: call.scenario, pods: [...call.pods], roles: { ...call.roles } },
          options(token),
        );
        return { kind: "order", order: answer.concurrent ? [] : answer.order };
      }
      case "ReloadConfig": {
        const answer = await client.reloadConfig(
          { configType: "parameters", parameters: { ...call.parameters }, configHash: call.hash, token: call.token },
          options(token),
        );
        return answer.requiresRestart ? { kind: "restart", parameters: answer.restartParameters } : outcome(answer);
      }
      case "Failover":
        return outcome(
          await client.failover(
            {
              timeout: "5s",
              targetHost: call.target,
              targetPort: programPort,
              others: call.others.map((host) => ({ host, port: programPort })),
              epoch: BigInt(call.epoch),
              token: call.token,
              primaryIsDown: call.isPrimaryDown ?? false,
            },
            options(token),
          ),
        );
      case "AssignRole":
        return outcome(
          await client.assignRole(
            {
              role: call.role,
              primaryHost: call.primary,
              primaryPort: programPort,
              epoch: BigInt(call.epoch),
              token: call.token,
            },
            options(token),
          ),
        );
      case "Stop":
        return outcome(
          await client.stop(
            { timeout: "10s", force: false, reason: "the Pod is being replaced", token: call.token },
            options(token),
          ),
        );
    }
  }

  return {
    async call(ip, token, call) {
      try {
        return await perform(ip, token, call);
      } catch (error) {
        const { code, rawMessage } = ConnectError.from(error);
        if (code === Code.InvalidArgument || code === Code.Unauthenticated) return { kind: "refused", message: rawMessage };
        return { kind: "unreachable", message: rawMessage };
      }
    },
    async role(ip, token, signal) {
      try {
        const { role, extraInfo } = await clientOf(ip).getRole(
          {},
          { ...options(token, roleTimeoutMs), ...(signal ? { signal } : {}) },
        );
        if (role === "stopped") return undefined;
        const { configHash, version, primaryHost, isInSync, offset, epoch, keys } = extraInfo;
        return {
          role,
          isInSync: isInSync === "true",
          ...(role === "replica" && primaryHost !== undefined ? { primaryHost } : {}),
          ...(configHash === undefined ? {} : { configHash }),
          ...(version === undefined ? {} : { version }),
          offset: Number(offset ?? 0),
          epoch: Number(epoch ?? 0),
          keys: Number(keys ?? 0),
        };
      } catch (error) {
        if (ConnectError.from(error).code !== unresponsive) return undefined;
        return { role: "unknown", isInSync: false };
      }
    },
    watch(ip, token, onChange, signal) {
      void watchRole(() => clientOf(ip), token, onChange, signal, clock);
    },
    close() {
      for (const { sessions } of connections.values()) sessions.abort();
      connections.clear();
    },
  };
}

/** Watches one agent until the signal fires. Reconnects after a failure. */
async function watchRole(
  connect: () => Client<typeof ToolInvoker>,
  token: string,
  onChange: () => void,
  signal: AbortSignal,
  clock: Clock,
): Promise<void> {
  let waitMs = initialReconnectMs;
  while (!signal.aborted) {
    let wasConnected = false;
    try {
      for await (const _ of connect().watchRole({}, { headers: { authorization: `Bearer ${token}` }, signal })) {
        wasConnected = true;
        waitMs = initialReconnectMs;
        onChange();
      }
    } catch {
      // Every failure means the same: the agent cannot be reached.
    }
    if (signal.aborted) return;
    if (wasConnected) onChange();
    await sleep(clock, waitMs, signal).catch(() => undefined);
    waitMs = Math.min(waitMs * 2, maxReconnectMs);
  }
}
