import type { Client } from "@keelson/client";
import { isNotFound } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { AgentClient } from "../fleet/agent-client.ts";
import type { AgentPod } from "../fleet/agent-pod.ts";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";
import { Sandbox } from "../api/sandbox.ts";
import { fastPathAllocation, instanceId } from "../controllers/sandbox-decision.ts";
import { type Claim, findOrphanReason } from "./janitor-decision.ts";

/** Options of {@link createJanitor}. */
export interface JanitorOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly isPending: (sandboxId: string) => boolean;
  readonly protectionMs: number;
}

/** Deletes orphaned sandboxes. Checks them when an agent reports, and young ones again when they reach the minimum age. */
export interface Janitor {
  check(agent: AgentPod, client: AgentClient, status: AgentStatus): void;
  stop(): Promise<void>;
}

/** Creates a {@link Janitor}. It queries the API directly, never a cache, before it deletes anything. */
export function createJanitor(options: JanitorOptions): Janitor {
  const { client: api, clock, log, protectionMs } = options;
  const checks = new Map<string, Promise<void>>();
  const timers = new Map<string, Timer>();
  /** Phases of sandboxes that were verified, so that repeated reports cost nothing. */
  const checked = new Map<string, string>();
  let isStopped = false;

  async function claimOf(status: SandboxStatus): Promise<Claim> {
    try {
      const sandbox = await api.get(Sandbox, { namespace: status.namespace, name: status.claimName });
      const ids = [
        sandbox.status?.sandboxID,
        fastPathAllocation(sandbox)?.sandboxId,
        instanceId(sandbox.metadata.uid ?? "", sandbox.status?.instance ?? 0),
      ];
      return { kind: "present", uid: sandbox.metadata.uid ?? "", sandboxIds: ids.filter((id) => id !== undefined) };
    } catch (error) {
      return isNotFound(error) ? { kind: "absent" } : { kind: "unknown" };
    }
  }

  async function inspect(agent: AgentPod, client: AgentClient, status: SandboxStatus): Promise<void> {
    const ageMs = clock.now() - status.createdAt * 1000;
    if (ageMs < protectionMs) {
      timers.get(status.sandboxId)?.cancel();
      const again = (): void => {
        timers.delete(status.sandboxId);
        start(agent, client, status);
      };
      timers.set(status.sandboxId, clock.setTimer(protectionMs - ageMs + 1, again, { background: true }));
      return;
    }
    const observe = async (): Promise<{ readonly reason: string | undefined; readonly isRight: boolean }> => {
      const claim = await claimOf(status);
      const isPending = options.isPending(status.sandboxId);
      const reason = findOrphanReason({ status, claim, isPending, now: clock.now(), protectionMs });
      return { reason, isRight: reason === undefined && claim.kind === "present" && !isPending };
    };
    const { reason, isRight } = await observe();
    // Anything unknown is checked again with the next status.
    if (isRight) checked.set(status.sandboxId, status.phase);
    if (reason === undefined) return;
    // Checked again right before the delete: an object that was just being created exists by now.
    if ((await observe()).reason === undefined || isStopped) return;
    log.info({ sandboxId: status.sandboxId, agent: agent.name, reason }, "deleting an orphaned sandbox");
    await client.delete(status.sandboxId);
  }

  function start(agent: AgentPod, client: AgentClient, status: SandboxStatus): void {
    if (isStopped || checks.has(status.sandboxId)) return;
    const run = inspect(agent, client, status)
      .catch((error: unknown) =>
        log.warn({ err: error, sandboxId: status.sandboxId }, "could not check a sandbox for its object"),
      )
      .finally(() => checks.delete(status.sandboxId));
    checks.set(status.sandboxId, run);
  }

  return {
    check(agent, client, { sandboxStatuses }) {
      for (const status of sandboxStatuses) {
        if (!timers.has(status.sandboxId) && checked.get(status.sandboxId) !== status.phase) start(agent, client, status);
      }
      const present = new Set(sandboxStatuses.map((status) => status.sandboxId));
      if (checked.size > 4 * present.size + 1024) checked.clear();
    },
    async stop() {
      isStopped = true;
      for (const timer of timers.values()) timer.cancel();
      await Promise.all(checks.values());
    },
  };
}
