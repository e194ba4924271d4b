import { type DeepReadonly, isConflict, isNotFound, jsonEquals } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import { type Clock, formatTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";
import type { AgentPod } from "./agent-pod.ts";

/** Options of an {@link AgentStatusWriter}. */
export interface AgentStatusWriterOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly log: Logger;
  /** All agents. */
  readonly agents: () => readonly AgentPod[];
  /** The last status of an agent; `undefined` if it is lost or has not reported. */
  readonly statusOf: (namespace: string, name: string) => AgentStatus | undefined;
}

const fieldManager = "sandboxes-agent-monitor";

/** Writes what agents report to the API. Writes of one object are serialized, and each reads the current state when it runs. */
export class AgentStatusWriter {
  readonly #options: AgentStatusWriterOptions;
  readonly #writes = new Map<string, Promise<void>>();

  constructor(options: AgentStatusWriterOptions) {
    this.#options = options;
  }

  /** Writes which agents of a pool are ready. */
  updatePool(namespace: string, pool: string): void {
    const { client, cache } = this.#options;
    this.#enqueue(`pool ${namespace}/${pool}`, async () => {
      const present = cache.get(SandboxPool, { namespace, name: pool });
      if (present === undefined) return;
      const agents = this.#agentsOf(present);
      if (jsonEquals(agents, present.status?.agents ?? [])) return;
      await client.applyStatus(SandboxPool, { metadata: { namespace, name: pool }, status: { agents } }, { fieldManager });
    });
  }

  /** Writes what its agent reports about a sandbox. */
  updateSandbox(sandbox: DeepReadonly<Sandbox>): void {
    const { namespace = "", name = "", uid } = sandbox.metadata;
    const id = sandbox.status?.sandboxID;
    const pod = sandbox.status?.assignedPod;
    const agent = pod === undefined ? undefined : this.#options.statusOf(namespace, pod);
    if (id === undefined || agent === undefined) return;
    const found = agent.sandboxStatuses.find((each) => each.sandboxId === id);
    const runtime = runtimeOf(id, found, sandbox.spec.idleTimeoutSeconds !== undefined);
    const before = sandbox.status?.runtime;
    if (jsonEquals(runtime, before)) return;
    // Not reported yet, unless it was before: then the agent no longer has it.
    if (found === undefined && before?.sandboxID !== id) return;
    this.#enqueue(`sandbox ${namespace}/${name}`, async () => {
      const configuration = { metadata: { namespace, name, uid }, status: { runtime } };
      await this.#options.client.applyStatus(Sandbox, configuration, { fieldManager });
    });
  }

  /** Deletes the key of an agent that was deleted. */
  deleteSecret({ namespace, name, secret }: AgentPod): void {
    if (secret === undefined) return;
    this.#enqueue(`secret of ${namespace}/${name}`, () => this.#options.client.delete(Secret, { namespace, name: secret }));
  }

  /** Resolves when no write is in flight. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#writes.values());
  }

  #agentsOf({ metadata, status }: DeepReadonly<SandboxPool>): NonNullable<NonNullable<SandboxPool["status"]>["agents"]> {
    const { agents, statusOf, clock } = this.#options;
    return agents()
      .filter((agent) => agent.namespace === metadata.namespace && agent.pool === metadata.name)
      .map((agent) => {
        const ready = statusOf(agent.namespace, agent.name) !== undefined;
        const before = status?.agents?.find((each) => each.name === agent.name);
        return { name: agent.name, ready, since: before?.ready === ready ? before.since : formatTime(clock.now()) };
      });
  }

  #enqueue(key: string, write: () => Promise<void>): void {
    const next = (this.#writes.get(key) ?? Promise.resolve())
      .then(write)
      .catch((error: unknown) => {
        if (!isConflict(error) && !isNotFound(error))
          this.#options.log.warn({ err: error, object: key }, "could not write the status of an agent");
      })
      .finally(() => {
        if (this.#writes.get(key) === next) this.#writes.delete(key);
      });
    this.#writes.set(key, next);
  }
}

function runtimeOf(
  sandboxID: string,
  found: SandboxStatus | undefined,
  hasIdleTimeout: boolean,
): NonNullable<NonNullable<Sandbox["status"]>["runtime"]> {
  if (found === undefined) return { sandboxID, phase: "terminated" };
  return {
    sandboxID,
    phase: found.phase,
    ...(found.message !== "" && { message: found.message }),
    ...(found.exitCode !== undefined && { exitCode: found.exitCode }),
    ...(found.paused === true && { paused: true }),
    // Each command and connection changes it.
    ...(hasIdleTimeout && found.idleSinceMs !== undefined && { idleSince: formatTime(found.idleSinceMs) }),
    ...(found.denied !== undefined &&
      found.denied.count > 0 && {
        deniedFlows: found.denied.count,
        deniedDestinations: [...found.denied.destinations],
      }),
  };
}
