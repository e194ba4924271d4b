import type { Client } from "@keelson/client";
import { isNotFound } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { AgentClient } from "../fleet/agent-client.ts";
import type { AgentPod } from "../fleet/agent-pod.ts";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";
import { Sandbox } from "../api/sandbox.ts";
import { fastPathPlace, instanceId } from "../controllers/sandbox-decision.ts";
import { type Claim, orphanReason } from "./janitor-decision.ts";

/** What a {@link Janitor} is made from. */
export interface JanitorOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly isInHand: (sandboxId: string) => boolean;
  readonly protectionMs: number;
}

/** Ends sandboxes that belong to nobody. Looks when an agent says what it has, and once more when a young one has come of age. */
export interface Janitor {
  look(agent: AgentPod, client: AgentClient, status: AgentStatus): void;
  stop(): Promise<void>;
}

/** Makes a {@link Janitor}. It asks the API itself, never a cache, before it ends anything. */
export function createJanitor(options: JanitorOptions): Janitor {
  const { client: api, clock, log, protectionMs } = options;
  const checks = new Map<string, Promise<void>>();
  const timers = new Map<string, Timer>();
  /** Statuses that were found right, so that an agent that repeats itself costs nothing. */
  const checked = new Map<string, string>();
  let isStopped = false;

  async function claimOf(status: SandboxStatus): Promise<Claim> {
    try {
      const sandbox = await api.get(Sandbox, { namespace: status.namespace, name: status.claimName });
      const ids = [
        sandbox.status?.sandboxID,
        fastPathPlace(sandbox)?.sandboxId,
        instanceId(sandbox.metadata.uid ?? "", sandbox.status?.instance ?? 0),
      ];
      return { kind: "present", uid: sandbox.metadata.uid ?? "", sandboxIds: ids.filter((id) => id !== undefined) };
    } catch (error) {
      return isNotFound(error) ? { kind: "absent" } : { kind: "unknown" };
    }
  }

  async function check(agent: AgentPod, client: AgentClient, status: SandboxStatus): Promise<void> {
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
      const isInHand = options.isInHand(status.sandboxId);
      const reason = orphanReason({ status, claim, isInHand, now: clock.now(), protectionMs });
      return { reason, isRight: reason === undefined && claim.kind === "present" && !isInHand };
    };
    const { reason, isRight } = await observe();
    // What could not be found out is looked at again with the next status.
    if (isRight) checked.set(status.sandboxId, status.phase);
    if (reason === undefined) return;
    // Once more right before the end: what was just being made is there by now.
    if ((await observe()).reason === undefined || isStopped) return;
    log.info({ sandboxId: status.sandboxId, agent: agent.name, reason }, "a sandbox that belongs to nobody is ended");
    await client.delete(status.sandboxId);
  }

  function start(agent: AgentPod, client: AgentClient, status: SandboxStatus): void {
    if (isStopped || checks.has(status.sandboxId)) return;
    const run = check(agent, client, status)
      .catch((error: unknown) => log.warn({ err: error, sandboxId: status.sandboxId }, "the janitor could not look"))
      .finally(() => checks.delete(status.sandboxId));
    checks.set(status.sandboxId, run);
  }

  return {
    look(agent, client, { sandboxStatuses }) {
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
