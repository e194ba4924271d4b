import { jsonEquals } from "@keelson/api-machinery";
import { Pod, Secret } from "@keelson/api-machinery/kinds";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Logger, OnChange } from "@keelson/controller";
import { agentApp, agentLabels } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { AgentError } from "../protocol/agent-error.ts";
import type { AgentStatus } from "../protocol/protocol.ts";
import type { Registry } from "../registry/registry.ts";
import { type AgentClient, createAgentClient } from "./agent-client.ts";
import { type AgentPod, listAgents, parseAgentPod, readToken } from "./agent-pod.ts";
import { ReportBudget } from "./report-budget.ts";
import { AgentStatusWriter } from "./agent-status-writer.ts";
import { AgentStream } from "./agent-stream.ts";

/** Dependencies of an {@link AgentMonitor}. */
export interface AgentMonitorOptions {
  readonly registry: Registry;
  readonly client: Client;
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called for every status. `before` is the last one, unless it is the first one of a connection. */
  readonly onStatus?: (agent: AgentPod, client: AgentClient, status: AgentStatus, before: AgentStatus | undefined) => void;
}

/** Follows every agent on its own stream and writes changes to the API. A slow agent does not delay others. */
export class AgentMonitor {
  readonly #options: AgentMonitorOptions;
  readonly #streams = new Map<string, AgentStream>();
  readonly #writer: AgentStatusWriter;
  readonly #budget: ReportBudget;
  readonly #unsubscribes: readonly (() => void)[];

  /** Starts following the agents of all pools. */
  constructor(options: AgentMonitorOptions) {
    const { client, cache, clock, log, onChange } = options;
    this.#options = options;
    this.#budget = new ReportBudget(clock);
    this.#writer = new AgentStatusWriter({
      ...{ client, cache, clock, log },
      agents: () => this.#agents(),
      statusOf: (namespace, name) => this.status(namespace, name),
    });
    this.#unsubscribes = [
      onChange(Pod, ({ object }) => {
        if (parseAgentPod(object) !== undefined) this.#sync();
      }),
      onChange(Sandbox, ({ type, object }) => {
        if (type === "delete") this.#writer.forgetSandbox(object);
        else this.#writer.updateSandbox(object);
      }),
      onChange(SandboxPool, ({ type, object }) => {
        // Also after an update: a write may have been decided on an older state of the pool.
        if (type !== "delete") this.#writer.updatePool(object.metadata.namespace ?? "", object.metadata.name ?? "");
      }),
    ];
    this.#sync();
  }

  /** The last status of an agent; `undefined` if it is lost or has not reported. */
  status(namespace: string, name: string): AgentStatus | undefined {
    return this.#streams.get(`${namespace}/${name}`)?.status;
  }

  /** The client of an agent, once its key is known. */
  client(namespace: string, name: string): AgentClient | undefined {
    return this.#streams.get(`${namespace}/${name}`)?.client;
  }

  /** Resolves when every current agent has reported or is unreachable; waits at most this long for hung ones. */
  async whenReported(maxWaitMs: number): Promise<void> {
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      timer = this.#options.clock.setTimer(maxWaitMs, resolve, { background: true });
    });
    await Promise.race([Promise.all([...this.#streams.values()].map((stream) => stream.attempted)), late]);
    timer?.cancel();
  }

  async stop(): Promise<void> {
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    await Promise.all(streams.map((stream) => stream.stop()));
    await this.#writer.settle();
  }

  #agents(): readonly AgentPod[] {
    return listAgents(this.#options.cache.list(Pod, { labelSelector: `${agentLabels.app}=${agentApp}` }));
  }

  /** Opens and closes streams so that every current agent has one. */
  #sync(): void {
    const present = new Map<string, AgentPod>(this.#agents().map((agent) => [`${agent.namespace}/${agent.name}`, agent]));
    for (const [id, stream] of this.#streams) {
      const agent = present.get(id);
      if (agent?.uid === stream.agent.uid && agent.url === stream.agent.url) this.#update(stream, agent);
      else this.#forget(id, stream);
    }
    for (const [id, agent] of present) {
      if (this.#streams.has(id) || agent.url === undefined) continue;
      const stream = new AgentStream({
        agent,
        connect: (pod) => this.#connect(pod),
        clock: this.#options.clock,
        log: this.#options.log,
        onStatus: (from, client, before) => this.#onStatus(from, client, before),
        onLost: (from) => this.#onLost(from),
      });
      this.#streams.set(id, stream);
    }
  }

  #update(stream: AgentStream, agent: AgentPod): void {
    const hasChanged = agent.isEnding !== stream.agent.isEnding;
    stream.agent = agent;
    if (hasChanged && stream.status !== undefined) this.#register(agent, stream.status);
  }

  #forget(id: string, stream: AgentStream): void {
    const { agent } = stream;
    this.#streams.delete(id);
    void stream.stop();
    // A deleted agent's key has no further use.
    this.#writer.deleteSecret(agent);
    // A new Pod of the same name has none of this one's sandboxes.
    this.#options.registry.remove(agent.namespace, agent.name);
    this.#writer.updatePool(agent.namespace, agent.pool);
  }

  async #connect({ namespace, name, secret, capacity, url = "" }: AgentPod): Promise<AgentClient> {
    const { client, clock } = this.#options;
    if (secret === undefined) throw new AgentError("Unreachable", `Pod ${name} does not refer to a Secret with its key`);
    const token = readToken(await client.get(Secret, { namespace, name: secret }));
    return createAgentClient({ url, token, capacity }, clock, this.#budget);
  }

  #register(agent: AgentPod, { capacity, images }: AgentStatus): void {
    // An agent must not attract sandboxes with room that it was not given.
    const room = Math.min(capacity, agent.capacity);
    this.#options.registry.register({ ...agent, capacity: room, images, isReady: !agent.isEnding });
  }

  #onStatus({ agent, status }: AgentStream, client: AgentClient, before: AgentStatus | undefined): void {
    if (status === undefined) return;
    const { cache, onStatus } = this.#options;
    this.#register(agent, status);
    onStatus?.(agent, client, status, before);
    if (before === undefined) this.#writer.updatePool(agent.namespace, agent.pool);
    if (jsonEquals(before?.sandboxStatuses, status.sandboxStatuses)) return;
    for (const sandbox of cache.list(Sandbox, { namespace: agent.namespace, index: ["pool", agent.pool] })) {
      if (sandbox.status?.assignedPod === agent.name) this.#writer.updateSandbox(sandbox);
    }
  }

  #onLost({ agent }: AgentStream): void {
    const { registry } = this.#options;
    const known = registry.agent(agent.namespace, agent.name);
    if (known !== undefined) registry.register({ ...known, isReady: false });
    this.#writer.updatePool(agent.namespace, agent.pool);
  }
}
