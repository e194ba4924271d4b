import { type DeepReadonly, isConflict, isNotFound, jsonEquals } from "@keelson/api-machinery";
import { Pod, Secret } from "@keelson/api-machinery/kinds";
import { type Clock, formatTime, sleep, type Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import type { OnChange } from "@keelson/controller";
import { agentApp, agentLabels } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import type { Registry } from "../registry/registry.ts";
import { type AgentClient, createAgentClient } from "./agent-client.ts";
import { AgentError } from "../protocol/agent-error.ts";
import { type AgentPod, parseAgentPod, listAgents, readToken } from "./agent-pod.ts";
import { statusHeartbeatMs } from "../agent/agent-server.ts";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";

/** Dependencies of an {@link AgentMonitor}. */
export interface AgentMonitorOptions {
  readonly registry: Registry;
  readonly client: Client;
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called for every status. */
  readonly onStatus?: (agent: AgentPod, client: AgentClient, status: AgentStatus) => void;
}

/** Follows every agent on a stream of its own and writes changes to the API. A slow agent does not delay others. */
export interface AgentMonitor {
  status(namespace: string, name: string): AgentStatus | undefined;
  client(namespace: string, name: string): AgentClient | undefined;
  /** Resolves when every current agent has reported or is unreachable; waits at most this long for hung ones. */
  whenReported(maxWaitMs: number): Promise<void>;
  stop(): Promise<void>;
}

interface Followed {
  agent: AgentPod;
  /** Present once its key is known. */
  client?: AgentClient;
  readonly control: AbortController;
  done: Promise<void>;
  status?: AgentStatus;
  /** Resolves after the first attempt to reach it. */
  readonly tried: Promise<void>;
  readonly settleTry: () => void;
}

/** An agent that does not report for this long, three heartbeats, is lost. */
const agentTimeoutMs = 3 * statusHeartbeatMs;
const firstPauseMs = 50;
const maxPauseMs = 2_000;
const fieldManager = "sandboxes-agent-monitor";

/** Starts following the agents of all pools. */
export function startAgentMonitor(options: AgentMonitorOptions): AgentMonitor {
  const { registry, client: api, cache, clock, log } = options;
  const followed = new Map<string, Followed>();
  const writes = new Map<string, Promise<void>>();
  const agents = (): readonly AgentPod[] => listAgents(cache.list(Pod, { labelSelector: `${agentLabels.app}=${agentApp}` }));
  const idOf = (agent: { readonly namespace: string; readonly name: string }): string => `${agent.namespace}/${agent.name}`;

  /** Serializes the writes per object; each write reads the current state when it runs, so the last state wins. */
  const queue = (key: string, write: () => Promise<void>): void => {
    const next = (writes.get(key) ?? Promise.resolve())
      .then(write)
      .catch((error: unknown) => {
        if (!isConflict(error) && !isNotFound(error))
          log.warn({ err: error, object: key }, "could not write the status of an agent");
      })
      .finally(() => {
        if (writes.get(key) === next) writes.delete(key);
      });
    writes.set(key, next);
  };

  function updatePoolAgents(namespace: string, pool: string): void {
    queue(`pool ${namespace}/${pool}`, async () => {
      const present = cache.get(SandboxPool, { namespace, name: pool });
      if (present === undefined) return;
      const shown = agents()
        .filter((agent) => agent.namespace === namespace && agent.pool === pool)
        .map((agent) => {
          const ready = followed.get(idOf(agent))?.status !== undefined;
          const before = present.status?.agents?.find((each) => each.name === agent.name);
          return { name: agent.name, ready, since: before?.ready === ready ? before.since : formatTime(clock.now()) };
        });
      if (jsonEquals(shown, present.status?.agents ?? [])) return;
      const configuration = {
        metadata: { namespace, name: pool },
        status: { agents: shown },
      };
      await api.applyStatus(SandboxPool, configuration, { fieldManager });
    });
  }

  function updateRuntime(sandbox: DeepReadonly<Sandbox>): void {
    const { namespace = "", name = "" } = sandbox.metadata;
    const id = sandbox.status?.sandboxID;
    const pod = sandbox.status?.assignedPod;
    if (id === undefined || pod === undefined) return;
    const agent = followed.get(`${namespace}/${pod}`)?.status;
    if (agent === undefined) return;
    const found = agent.sandboxStatuses.find((each) => each.sandboxId === id);
    const runtime = runtimeOf(id, found);
    const before = sandbox.status?.runtime;
    if (jsonEquals(runtime, before)) return;
    // Not reported yet, unless it was before: then the agent no longer has it.
    if (found === undefined && before?.sandboxID !== id) return;
    queue(`sandbox ${namespace}/${name}`, async () => {
      const configuration = { metadata: { namespace, name, uid: sandbox.metadata.uid }, status: { runtime } };
      await api.applyStatus(Sandbox, configuration, { fieldManager });
    });
  }

  function register({ agent }: Followed, status: Pick<AgentStatus, "capacity" | "images">): void {
    registry.register({ ...agent, capacity: status.capacity, images: status.images, isReady: !agent.isEnding });
  }

  function onStatus(entry: Followed, client: AgentClient, status: AgentStatus): void {
    const { agent } = entry;
    const wasReady = entry.status !== undefined;
    const before = entry.status;
    entry.status = status;
    entry.settleTry();
    register(entry, status);
    options.onStatus?.(agent, client, status);
    if (!wasReady) updatePoolAgents(agent.namespace, agent.pool);
    if (jsonEquals(before?.sandboxStatuses, status.sandboxStatuses)) return;
    for (const sandbox of cache.list(Sandbox, { namespace: agent.namespace, index: ["pool", agent.pool] })) {
      if (sandbox.status?.assignedPod === agent.name) updateRuntime(sandbox);
    }
  }

  function lose(entry: Followed): void {
    const { agent } = entry;
    if (entry.status === undefined) return;
    delete entry.status;
    const known = registry.agent(agent.namespace, agent.name);
    if (known !== undefined) registry.register({ ...known, isReady: false });
    updatePoolAgents(agent.namespace, agent.pool);
  }

  async function connect({ namespace, name, secret, url = "" }: AgentPod): Promise<AgentClient> {
    if (secret === undefined) throw new AgentError("Unreachable", `Pod ${name} does not refer to a Secret with its key`);
    return createAgentClient({ url, token: readToken(await api.get(Secret, { namespace, name: secret })) }, clock);
  }

  async function follow(entry: Followed): Promise<void> {
    const { signal } = entry.control;
    let pauseMs = firstPauseMs;
    while (!signal.aborted) {
      const attempt = new AbortController();
      const abort = (): void => attempt.abort();
      signal.addEventListener("abort", abort, { once: true });
      let timer = clock.setTimer(agentTimeoutMs, abort, { background: true });
      try {
        entry.client ??= await connect(entry.agent);
        for await (const status of entry.client.watch(attempt.signal)) {
          timer.cancel();
          timer = clock.setTimer(agentTimeoutMs, abort, { background: true });
          pauseMs = firstPauseMs;
          onStatus(entry, entry.client, status);
        }
      } catch (error) {
        if (!signal.aborted) log.debug({ err: error, agent: entry.agent.name }, "lost the connection to an agent; retrying");
      } finally {
        timer.cancel();
        signal.removeEventListener("abort", abort);
      }
      entry.settleTry();
      if (signal.aborted) break;
      lose(entry);
      await sleep(clock, pauseMs, signal).catch(() => {});
      pauseMs = Math.min(pauseMs * 2, maxPauseMs);
    }
  }

  function forget(id: string, entry: Followed): void {
    followed.delete(id);
    entry.control.abort();
  }

  /** A deleted agent's key has no further use. */
  function dropSecret({ namespace, name, secret }: AgentPod): void {
    if (secret !== undefined) queue(`secret of ${namespace}/${name}`, () => api.delete(Secret, { namespace, name: secret }));
  }

  function sync(): void {
    const present = new Map(agents().map((agent) => [idOf(agent), agent] as const));
    for (const [id, entry] of followed) {
      const agent = present.get(id);
      if (agent !== undefined && agent.uid === entry.agent.uid && agent.url === entry.agent.url) {
        const hasChanged = agent.isEnding !== entry.agent.isEnding;
        entry.agent = agent;
        if (hasChanged && entry.status !== undefined) register(entry, entry.status);
        continue;
      }
      forget(id, entry);
      dropSecret(entry.agent);
      // A new Pod of the same name has none of this one's sandboxes.
      registry.remove(entry.agent.namespace, entry.agent.name);
      updatePoolAgents(entry.agent.namespace, entry.agent.pool);
    }
    for (const [id, agent] of present) {
      if (followed.has(id) || agent.url === undefined) continue;
      let settleTry = (): void => {};
      const tried = new Promise<void>((resolve) => (settleTry = resolve));
      const entry: Followed = { agent, control: new AbortController(), done: Promise.resolve(), tried, settleTry };
      followed.set(id, entry);
      entry.done = follow(entry);
    }
  }

  const stops = [
    options.onChange(Pod, ({ object }) => {
      if (parseAgentPod(object) !== undefined) sync();
    }),
    options.onChange(Sandbox, ({ type, object }) => type !== "delete" && updateRuntime(object)),
    options.onChange(SandboxPool, ({ type, object }) => {
      if (type === "create") updatePoolAgents(object.metadata.namespace ?? "", object.metadata.name ?? "");
    }),
  ];
  sync();
  return {
    status: (namespace, name) => followed.get(`${namespace}/${name}`)?.status,
    client: (namespace, name) => followed.get(`${namespace}/${name}`)?.client,
    async whenReported(maxWaitMs) {
      let timer: Timer | undefined;
      const late = new Promise<void>((resolve) => (timer = clock.setTimer(maxWaitMs, resolve, { background: true })));
      await Promise.race([Promise.all([...followed.values()].map((entry) => entry.tried)), late]);
      timer?.cancel();
    },
    async stop() {
      for (const stop of stops) stop();
      const entries = [...followed];
      for (const [id, entry] of entries) forget(id, entry);
      await Promise.all(entries.map(([, entry]) => entry.done));
      await Promise.allSettled(writes.values());
    },
  };
}

function runtimeOf(
  sandboxID: string,
  found: SandboxStatus | undefined,
): NonNullable<NonNullable<Sandbox["status"]>["runtime"]> {
  if (found === undefined) return { sandboxID, phase: "terminated" };
  return {
    sandboxID,
    phase: found.phase,
    ...(found.message !== "" && { message: found.message }),
    ...(found.exitCode !== undefined && { exitCode: found.exitCode }),
  };
}
