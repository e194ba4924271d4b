import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import type { Phase, Sandbox } from "../api/sandbox.ts";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";
import { fastPathAllocation } from "./instance.ts";
import { deletionTime, idleEnd, lifetimeEnd, startDeadlineOf } from "./lifetime.ts";
import { draftOf, resumed, type SandboxStatusDraft, unbound } from "./status-draft.ts";

/* What a decision about a Sandbox consists of, and the steps that several phases share. */

/** The observed agent of a Sandbox. */
export type AgentView =
  | { readonly kind: "none" }
  /** It was deleted, with all its sandboxes. */
  | { readonly kind: "deleted" }
  /** It does not report. */
  | { readonly kind: "unreachable" }
  | { readonly kind: "ready"; readonly status: AgentStatus };

/** The input of a decision. */
export interface SandboxObservation {
  readonly sandbox: DeepReadonly<Sandbox>;
  readonly agent: AgentView;
  readonly now: number;
}

/** The next step. */
export type SandboxStep =
  | { readonly kind: "add-finalizer" }
  | { readonly kind: "remove-finalizer" }
  /** Allocate a slot, then write `Creating` with it. */
  | { readonly kind: "place"; readonly status: SandboxStatusDraft }
  /** Start it on the assigned agent, then write the result. */
  | { readonly kind: "create"; readonly sandboxId: string }
  /** Delete it on the assigned agent. */
  | { readonly kind: "delete"; readonly sandboxId: string; readonly status?: SandboxStatusDraft }
  | { readonly kind: "pause"; readonly sandboxId: string }
  /** Let it continue, with this expiry. */
  | { readonly kind: "resume"; readonly sandboxId: string; readonly expiresAtMs: number | null }
  /** Delete the object, which has been finished for its time to live. */
  | { readonly kind: "delete-object" }
  /** Set the expiry on the assigned agent, which enforces it while the operator is down. */
  | { readonly kind: "set-expiry"; readonly sandboxId: string; readonly expiresAtMs: number | null }
  | { readonly kind: "write"; readonly status: SandboxStatusDraft; readonly releases: boolean }
  | { readonly kind: "wait" };

/** A step, and when to reconcile again at the latest. */
export interface SandboxDecision {
  readonly step: SandboxStep;
  readonly requeueAfterMs?: number;
}

/** The steps of one decision. */
export class Steps {
  readonly isExpired: boolean;
  /** Why it expires, or is already being stopped for that. */
  readonly expiryReason: string | undefined;
  /** Its caller no longer waits for its start. */
  readonly isTooLate: boolean;
  readonly #observation: SandboxObservation;
  readonly #requeueAfterMs: number | undefined;

  constructor(observation: SandboxObservation) {
    const { sandbox, agent, now } = observation;
    const isPaused = sandbox.status?.pausedTime !== undefined;
    const expiry = isPaused ? undefined : lifetimeEnd(sandbox);
    const idle = isPaused ? undefined : idleEnd(sandbox, reportOf(sandbox, agent)?.idleSinceMs);
    this.#observation = observation;
    const startDeadline = startDeadlineOf(sandbox);
    this.isExpired = expiry !== undefined && expiry <= now;
    const isIdle = idle !== undefined && idle <= now && sandbox.status?.phase === "Running";
    this.expiryReason = expiryReason(sandbox, now, this.isExpired, isIdle);
    this.isTooLate = startDeadline !== undefined && startDeadline <= now;
    const future = [expiry, idle, startDeadline].filter((time) => time !== undefined).filter((time) => time > now);
    this.#requeueAfterMs = future.length === 0 ? undefined : Math.min(...future) - now;
  }

  /** A decision that is reconsidered at the expiry, or after `otherMs` if that is sooner. */
  next(step: SandboxStep, otherMs?: number): SandboxDecision {
    const times = [this.#requeueAfterMs, otherMs].filter((ms) => ms !== undefined);
    return times.length === 0 ? { step } : { step, requeueAfterMs: Math.min(...times) };
  }

  /** Deletes the current instance, then writes `status`. */
  leave(status: SandboxStatusDraft): SandboxDecision {
    const { sandbox, agent } = this.#observation;
    const id = sandbox.status?.sandboxID ?? fastPathAllocation(sandbox)?.sandboxId;
    if (id === undefined || isAbsent(agent, id)) return this.next({ kind: "write", status, releases: true });
    if (agent.kind === "ready") return this.next({ kind: "delete", sandboxId: id });
    // Unreachable: it may still run. Wait until the agent reports again or is deleted.
    return this.next({ kind: "wait" });
  }

  /** Commits the expiry, then stops the current instance, then reports `Expired`. */
  expire(reason: string): SandboxDecision {
    const { sandbox, agent, now } = this.#observation;
    const { status = {} } = sandbox;
    const id = status.sandboxID ?? fastPathAllocation(sandbox)?.sandboxId;
    const expiredTime = status.expiredTime ?? formatTime(now);
    if (id !== undefined && !isAbsent(agent, id) && status.expiredTime === undefined) {
      return this.next({
        kind: "write",
        status: this.draft("Terminating", `stopping: ${reason}`, { expiredTime }),
        releases: false,
      });
    }
    return this.leave({ ...unbound(this.draft("Expired", reason)), expiredTime });
  }

  /** Waits until the object of a finished Sandbox is to be deleted. */
  finish(): SandboxDecision {
    const { sandbox, now } = this.#observation;
    const time = deletionTime(sandbox);
    if (time === undefined) return { step: { kind: "wait" } };
    return time <= now ? { step: { kind: "delete-object" } } : { step: { kind: "wait" }, requeueAfterMs: time - now };
  }

  draft(phase: Phase, message: string, change: Partial<SandboxStatusDraft> = {}): SandboxStatusDraft {
    return draftOf(this.#observation.sandbox, phase, message, this.#observation.now, change);
  }

  /** The status of the next instance. */
  restart(message: string): SandboxStatusDraft {
    const { sandbox, now } = this.#observation;
    const instance = (sandbox.status?.instance ?? 0) + 1;
    return unbound(resumed(sandbox.spec, this.draft("Pending", message, { instance }), now));
  }
}

/** Why a Sandbox expires; the reason of an expiry that is already committed comes from its message. */
function expiryReason(
  { spec, status }: DeepReadonly<Sandbox>,
  now: number,
  isExpired: boolean,
  isIdle: boolean,
): string | undefined {
  if (status?.expiredTime !== undefined) return status.message?.replace(/^stopping: /, "") ?? "expired";
  if (isIdle) return `was idle for ${spec.idleTimeoutSeconds ?? 0} s`;
  if (!isExpired) return undefined;
  const { maxAgeSeconds, ...others } = spec;
  const byTime = lifetimeEnd({ spec: others, ...(status !== undefined && { status }) });
  if (maxAgeSeconds === undefined || (byTime !== undefined && byTime <= now)) return "reached its expireTime";
  return `reached its maximum age of ${maxAgeSeconds} s`;
}

/** What the agent reports about the current instance. */
export function reportOf({ status }: DeepReadonly<Sandbox>, agent: AgentView): SandboxStatus | undefined {
  if (agent.kind !== "ready" || status?.sandboxID === undefined) return undefined;
  return agent.status.sandboxStatuses.find(({ sandboxId }) => sandboxId === status.sandboxID);
}

/** Whether the agent certainly has no sandbox of this id. */
export function isAbsent(agent: AgentView, sandboxId: string): boolean {
  if (agent.kind === "none" || agent.kind === "deleted") return true;
  return agent.kind === "ready" && !agent.status.sandboxStatuses.some((each) => each.sandboxId === sandboxId);
}
