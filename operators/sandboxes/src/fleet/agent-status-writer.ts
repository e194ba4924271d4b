import { type DeepReadonly, isConflict, isNotFound, jsonEquals } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import { type Clock, formatTime } from "@keelson/api-machinery/time";
import { compareResourceVersions } from "@keelson/api-machinery/transport";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import { Sandbox, startingPhases } from "../api/sandbox.ts";
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

/**
 * Writes what agents report to the API. Writes of one object are serialized, and each reads the current state when it runs. At most one write of a
 * sandbox waits, and what was written is not written again before the cache has it.
 */
export class AgentStatusWriter {
  readonly #options: AgentStatusWriterOptions;
  readonly #writes = new Map<string, Promise<void>>();
  /** Sandboxes with a write that has not begun. */
  readonly #waiting = new Set<string>();
  /** Sandboxes as they were written, until the cache has them. */
  readonly #written = new Map<string, DeepReadonly<Sandbox>>();

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

  /** Writes what its agent reports about a sandbox. `sandbox` is what the cache has. */
  updateSandbox(sandbox: DeepReadonly<Sandbox>): void {
    const { namespace = "", name = "" } = sandbox.metadata;
    const key = `sandbox ${namespace}/${name}`;
    if (this.#waiting.has(key) || this.#change(key, sandbox) === undefined) return;
    this.#waiting.add(key);
    this.#enqueue(key, async () => {
      this.#waiting.delete(key);
      const { client, cache } = this.#options;
      const present = cache.get(Sandbox, { namespace, name });
      const runtime = present === undefined ? undefined : this.#change(key, present);
      if (present === undefined || runtime === undefined) return;
      const { uid } = present.metadata;
      const configuration = { metadata: { namespace, name, uid }, status: { runtime } };
      const written = await client.applyStatus(Sandbox, configuration, { fieldManager });
      if (cache.get(Sandbox, { namespace, name })?.metadata.uid === uid) this.#written.set(key, written);
    });
  }

  /** Forgets a sandbox that was deleted. */
  forgetSandbox({ metadata: { namespace = "", name = "" } }: DeepReadonly<Sandbox>): void {
    this.#written.delete(`sandbox ${namespace}/${name}`);
  }

  /** What to write about a sandbox; undefined if nothing has changed. */
  #change(key: string, sandbox: DeepReadonly<Sandbox>): SandboxRuntime | undefined {
    const { metadata, spec, status } = sandbox;
    const { sandboxID: id, assignedPod: pod } = status ?? {};
    const agent = pod === undefined ? undefined : this.#options.statusOf(metadata.namespace ?? "", pod);
    // The controller of sandboxes reads the reports about one that starts or is being deleted, and a write would only conflict with its own.
    if (startingPhases.has(status?.phase) || metadata.deletionTimestamp !== undefined) return undefined;
    if (id === undefined || agent === undefined) return undefined;
    const found = agent.sandboxStatuses.find((each) => each.sandboxId === id);
    const before = this.#latest(key, sandbox).status?.runtime;
    // Not reported yet, unless it was before: then the agent no longer has it.
    if (found === undefined && before?.sandboxID !== id) return undefined;
    const runtime = runtimeOf(id, found, spec.idleTimeoutSeconds !== undefined);
    return jsonEquals(runtime, before) ? undefined : runtime;
  }

  /** A sandbox as the cache has it, or as it was written if the cache does not have that yet. */
  #latest(key: string, cached: DeepReadonly<Sandbox>): DeepReadonly<Sandbox> {
    const written = this.#written.get(key);
    if (written === undefined) return cached;
    const { uid = "", resourceVersion = "0" } = written.metadata;
    const isNewer = compareResourceVersions(resourceVersion, cached.metadata.resourceVersion ?? "0") > 0;
    if (isNewer && cached.metadata.uid === uid) return written;
    this.#written.delete(key);
    return cached;
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

type SandboxRuntime = NonNullable<NonNullable<Sandbox["status"]>["runtime"]>;

function runtimeOf(sandboxID: string, found: SandboxStatus | undefined, hasIdleTimeout: boolean): SandboxRuntime {
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
