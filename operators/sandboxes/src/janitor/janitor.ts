import type { Client } from "@keelson/client";
import { isNotFound } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { AgentClient } from "../fleet/agent-client.ts";
import type { AgentPod } from "../fleet/agent-pod.ts";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";
import { Sandbox } from "../api/sandbox.ts";
import { fastPathAllocation, instanceId } from "../controllers/instance.ts";
import { type Claim, findOrphanReason } from "./janitor-decision.ts";

/** Maximum number of sandboxes of one agent that are checked at the same time. The others are checked after its next report. */
const maxChecks = 32;

/** Options of a {@link Janitor}. */
export interface JanitorOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether the fast path may not have written the object of a sandbox yet. */
  readonly isPending: (sandboxId: string) => boolean;
  /** Minimum age of a sandbox without an object before it is deleted. */
  readonly protectionMs: number;
}

/**
 * Deletes orphaned sandboxes. Checks them when an agent reports, and young ones again when they reach the minimum age. It queries the
 * API directly, never a cache, before it deletes anything.
 */
export class Janitor {
  readonly #options: JanitorOptions;
  readonly #checks = new Map<string, Promise<void>>();
  /** Number of checks by the uid of their agent. */
  readonly #running = new Map<string, number>();
  /** Checks that wait until a sandbox is old enough, by the uid of its agent and its id. */
  readonly #timers = new Map<string, Map<string, Timer>>();
  /** Phases of sandboxes that were verified, so that repeated reports cost nothing. */
  readonly #verified = new Map<string, string>();
  #isStopped = false;

  constructor(options: JanitorOptions) {
    this.#options = options;
  }

  /** Checks the sandboxes that an agent reports. */
  check(agent: AgentPod, client: AgentClient, { sandboxStatuses }: AgentStatus): void {
    for (const status of sandboxStatuses) {
      const key = keyOf(agent, status);
      if (!this.#timers.get(agent.uid)?.has(status.sandboxId) && this.#verified.get(key) !== status.phase)
        this.#start(agent, client, status);
    }
    this.#forgetTimers(agent, sandboxStatuses);
    if (this.#verified.size > 4 * sandboxStatuses.length + 1024) this.#verified.clear();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const timers of this.#timers.values()) for (const timer of timers.values()) timer.cancel();
    await Promise.all(this.#checks.values());
  }

  /** Cancels the checks of sandboxes that their agent no longer has: most are deleted before they are due. */
  #forgetTimers({ uid }: AgentPod, statuses: readonly SandboxStatus[]): void {
    const timers = this.#timers.get(uid);
    if (timers === undefined) return;
    const present = new Set(statuses.map(({ sandboxId }) => sandboxId));
    for (const [sandboxId, timer] of timers) {
      if (present.has(sandboxId)) continue;
      timer.cancel();
      timers.delete(sandboxId);
    }
    if (timers.size === 0) this.#timers.delete(uid);
  }

  #start(agent: AgentPod, client: AgentClient, status: SandboxStatus): void {
    const { sandboxId } = status;
    const key = keyOf(agent, status);
    const running = this.#running.get(agent.uid) ?? 0;
    if (this.#isStopped || this.#checks.has(key) || running >= maxChecks) return;
    this.#running.set(agent.uid, running + 1);
    const run = this.#inspect(agent, client, status)
      .catch((error: unknown) => this.#options.log.warn({ err: error, sandboxId }, "could not check a sandbox for its object"))
      .finally(() => {
        this.#checks.delete(key);
        const others = (this.#running.get(agent.uid) ?? 1) - 1;
        if (others === 0) this.#running.delete(agent.uid);
        else this.#running.set(agent.uid, others);
      });
    this.#checks.set(key, run);
  }

  async #inspect(agent: AgentPod, client: AgentClient, status: SandboxStatus): Promise<void> {
    const { clock, log, protectionMs } = this.#options;
    const { sandboxId } = status;
    const ageMs = clock.now() - status.createdAt * 1000;
    // Its agent reports when it was created, which may be in the future.
    if (ageMs < protectionMs) return this.#postpone(protectionMs - Math.max(ageMs, 0) + 1, agent, client, status);
    const { reason, isVerified } = await this.#observe(status);
    // Anything unknown is checked again with the next status.
    if (isVerified) this.#verified.set(keyOf(agent, status), status.phase);
    if (reason === undefined) return;
    // Checked again right before the delete: an object that was just being created exists by now.
    if ((await this.#observe(status)).reason === undefined || this.#isStopped) return;
    log.info({ sandboxId, agent: agent.name, reason }, "deleting an orphaned sandbox");
    await client.delete(sandboxId);
  }

  #postpone(delayMs: number, agent: AgentPod, client: AgentClient, status: SandboxStatus): void {
    const { sandboxId } = status;
    const timers = this.#timers.get(agent.uid) ?? new Map<string, Timer>();
    this.#timers.set(agent.uid, timers);
    timers.get(sandboxId)?.cancel();
    const check = (): void => {
      timers.delete(sandboxId);
      if (timers.size === 0) this.#timers.delete(agent.uid);
      this.#start(agent, client, status);
    };
    timers.set(sandboxId, this.#options.clock.setTimer(delayMs, check, { background: true }));
  }

  /** Why a sandbox is an orphan, or whether it verifiably has an object. */
  async #observe(status: SandboxStatus): Promise<{ readonly reason: string | undefined; readonly isVerified: boolean }> {
    const { clock, protectionMs } = this.#options;
    const claim = await this.#claimOf(status);
    const isPending = this.#options.isPending(status.sandboxId);
    const reason = findOrphanReason({ status, claim, isPending, now: clock.now(), protectionMs });
    return { reason, isVerified: reason === undefined && claim.kind === "present" && !isPending };
  }

  async #claimOf({ namespace, claimName }: SandboxStatus): Promise<Claim> {
    try {
      const sandbox = await this.#options.client.get(Sandbox, { namespace, name: claimName });
      const { uid } = sandbox.metadata;
      const ids = [
        sandbox.status?.sandboxID,
        fastPathAllocation(sandbox)?.sandboxId,
        instanceId(uid, sandbox.status?.instance ?? 0),
      ];
      return { kind: "present", uid, sandboxIds: ids.filter((id) => id !== undefined) };
    } catch (error) {
      return isNotFound(error) ? { kind: "absent" } : { kind: "unknown" };
    }
  }
}

/** Identifies a sandbox as reported by this agent: another one may report the same id. */
const keyOf = ({ uid }: AgentPod, { sandboxId }: SandboxStatus): string => `${uid}/${sandboxId}`;
