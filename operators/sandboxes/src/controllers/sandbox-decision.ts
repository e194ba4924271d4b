import { createHash } from "node:crypto";
import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import type { AgentStatus } from "../protocol/protocol.ts";
import { allocationAnnotation, cleanupFinalizer, sandboxIdPattern, startDeadlineAnnotation } from "../api/names.ts";
import type { Phase, Sandbox } from "../api/sandbox.ts";
import { draftOf, type SandboxStatusDraft, unbound, withoutLoss } from "./status-draft.ts";

/*
 * The life cycle of a Sandbox:
 *
 *     Pending --> Creating --> Running --> Succeeded | Failed        (its program ended)
 *        ^           |            |------> Lost                      (its agent was lost)
 *        |-----------+------------+--reset, or AutoRecreate from Lost
 *     any of these --expireTime--> Expired     any --deletion--> Terminating --> deleted
 *
 * One reconcile takes one step. A step that acts on an agent uses a sandboxID that the API already has, so that it can be repeated
 * after a crash.
 */

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
  /** Set the expiry on the assigned agent, which enforces it while the operator is down. */
  | { readonly kind: "set-expiry"; readonly sandboxId: string; readonly expiresAtMs: number | null }
  | { readonly kind: "write"; readonly status: SandboxStatusDraft; readonly releases: boolean }
  | { readonly kind: "wait" };

/** A step, and when to reconcile again at the latest. */
export interface SandboxDecision {
  readonly step: SandboxStep;
  readonly requeueAfterMs?: number;
}

/** When a Sandbox expires (ms since the epoch), or never. */
export function expiryOf(spec: DeepReadonly<Sandbox["spec"]>): number | undefined {
  if (spec.expireTime !== undefined) return Date.parse(spec.expireTime);
  return spec.expireTimeSeconds === undefined || spec.expireTimeSeconds === 0 ? undefined : spec.expireTimeSeconds * 1000;
}

/** The id of an instance: the object's uid for the first, a hash of it for later ones, so that a repeated step uses the same id. */
export function instanceId(uid: string, instance: number): string {
  return instance === 0 ? uid : createHash("sha256").update(`${uid}/${instance}`).digest("hex").slice(0, 32);
}

/** The fast path's allocation of a Sandbox. Valid for the first instance only, although the annotation stays. */
export function fastPathAllocation(
  sandbox: DeepReadonly<Sandbox>,
): { readonly pod: string; readonly node: string; readonly sandboxId: string } | undefined {
  const text = sandbox.metadata.annotations?.[allocationAnnotation];
  if (text === undefined || (sandbox.status?.instance ?? 0) > 0) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(value)) return undefined;
  const { assignedPod, assignedNode, sandboxID } = value;
  if (typeof assignedPod !== "string" || typeof sandboxID !== "string" || !sandboxIdPattern.test(sandboxID)) return undefined;
  return { pod: assignedPod, node: typeof assignedNode === "string" ? assignedNode : "", sandboxId: sandboxID };
}

/** When a Sandbox must have started (ms since the epoch); undefined once it has, or if it may start at any time. */
export function startDeadlineOf({ metadata, status }: DeepReadonly<Sandbox>): number | undefined {
  const text = metadata.annotations?.[startDeadlineAnnotation];
  if (text === undefined || status?.firstStartTime !== undefined) return undefined;
  const deadline = Date.parse(text);
  return Number.isFinite(deadline) ? deadline : undefined;
}

const isAuto = (sandbox: DeepReadonly<Sandbox>): boolean => /^autorecreate$/i.test(sandbox.spec.failurePolicy ?? "Manual");

/** Whether its program has terminated, which frees its slot. */
export const hasEnded = ({ status }: DeepReadonly<Sandbox>): boolean =>
  ["Succeeded", "Failed", "Expired"].includes(status?.phase ?? "");

/** Decides the next step of a Sandbox. */
export function decideSandbox(observation: SandboxObservation): SandboxDecision {
  const { metadata, spec, status = {} } = observation.sandbox;
  const hasFinalizer = metadata.finalizers?.includes(cleanupFinalizer) ?? false;
  if (metadata.deletionTimestamp !== undefined) return hasFinalizer ? decideDeletion(observation) : { step: { kind: "wait" } };
  if (!hasFinalizer) return { step: { kind: "add-finalizer" } };

  const steps = new Steps(observation);
  const reset = spec.resetRevision;
  const isReset = reset !== undefined && Date.parse(reset) > Date.parse(status.acceptedResetRevision ?? "1970-01-01T00:00:00Z");
  if (steps.isExpired) {
    if (status.phase === "Expired") return { step: { kind: "wait" } };
    return steps.leave(unbound(steps.draft("Expired", "reached its expireTime")));
  }
  if (steps.isTooLate) {
    const failed = steps.draft("Failed", "did not start before its caller's deadline", {
      finishTime: formatTime(observation.now),
    });
    return steps.leave(unbound(failed));
  }
  if (isReset) return steps.leave({ ...steps.restart(`reset (${reset})`), acceptedResetRevision: reset });
  switch (status.phase) {
    case undefined:
    case "Pending":
      return decidePending(observation, steps);
    case "Creating":
    case "Bound":
      return decideCreating(observation, steps);
    case "Running":
    case "Lost":
      return decideRunning(observation, steps);
    default:
      // Changing the expireTime of an expired Sandbox does not restart it; a reset does.
      return steps.next({ kind: "wait" });
  }
}

function decideDeletion({ sandbox, agent, now }: SandboxObservation): SandboxDecision {
  const { status = {} } = sandbox;
  const allocation = fastPathAllocation(sandbox);
  const sandboxID = status.sandboxID ?? allocation?.sandboxId;
  if (sandboxID === undefined || isAbsent(agent, sandboxID)) return { step: { kind: "remove-finalizer" } };
  if (status.phase === "Terminating")
    return { step: agent.kind === "ready" ? { kind: "delete", sandboxId: sandboxID } : { kind: "wait" } };
  const assignedPod = status.assignedPod ?? allocation?.pod;
  const terminating = draftOf(sandbox, "Terminating", "stopping", now, {
    sandboxID,
    ...(assignedPod !== undefined && { assignedPod }),
  });
  return { step: { kind: "write", status: terminating, releases: false } };
}

function decidePending({ sandbox }: SandboxObservation, steps: Steps): SandboxDecision {
  const allocation = fastPathAllocation(sandbox);
  if (allocation === undefined) return steps.next({ kind: "place", status: steps.draft("Creating", "") });
  const { pod, node, sandboxId } = allocation;
  const bound = { assignedPod: pod, nodeName: node, sandboxID: sandboxId };
  const status = steps.draft("Creating", `started on agent ${pod}`, bound);
  return steps.next({ kind: "write", status, releases: false });
}

function decideCreating(observation: SandboxObservation, steps: Steps): SandboxDecision {
  const { agent, sandbox } = observation;
  const sandboxId = sandbox.status?.sandboxID;
  if (sandboxId === undefined)
    return steps.next({ kind: "write", status: steps.restart("not assigned to an agent"), releases: true });
  if (agent.kind === "deleted" || agent.kind === "none")
    return steps.next({ kind: "write", status: steps.restart("its agent was deleted"), releases: true });
  if (agent.kind === "unreachable") return decideLost(observation, steps);
  return steps.next({ kind: "create", sandboxId });
}

/** The steps of one decision. */
class Steps {
  readonly isExpired: boolean;
  /** Its caller no longer waits for its start. */
  readonly isTooLate: boolean;
  readonly #observation: SandboxObservation;
  readonly #requeueAfterMs: number | undefined;

  constructor(observation: SandboxObservation) {
    const { sandbox, now } = observation;
    const expiry = expiryOf(sandbox.spec);
    this.#observation = observation;
    const startDeadline = startDeadlineOf(sandbox);
    this.isExpired = expiry !== undefined && expiry <= now;
    this.isTooLate = startDeadline !== undefined && startDeadline <= now;
    const future = [expiry, startDeadline].filter((time) => time !== undefined).filter((time) => time > now);
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

  draft(phase: Phase, message: string, change: Partial<SandboxStatusDraft> = {}): SandboxStatusDraft {
    return draftOf(this.#observation.sandbox, phase, message, this.#observation.now, change);
  }

  /** The status of the next instance. */
  restart(message: string): SandboxStatusDraft {
    const instance = (this.#observation.sandbox.status?.instance ?? 0) + 1;
    return unbound(this.draft("Pending", message, { instance }));
  }
}

function decideRunning(observation: SandboxObservation, steps: Steps): SandboxDecision {
  const { sandbox, agent, now } = observation;
  const { status = {} } = sandbox;
  const id = status.sandboxID ?? "";
  if (agent.kind !== "ready") return decideLost(observation, steps);
  const found = agent.status.sandboxStatuses.find((each) => each.sandboxId === id);
  if (found === undefined || found.phase === "terminated") return decideAbsent(sandbox, found !== undefined, steps);
  // Being deleted by another party: wait until the agent no longer has it.
  if (found.phase === "terminating") return steps.next({ kind: "wait" });
  if (found.phase === "running" || found.phase === "creating") {
    if (status.phase === "Running" && status.observedGeneration === sandbox.metadata.generation) {
      const expiresAtMs = expiryOf(sandbox.spec) ?? null;
      const isKept = found.expiresAtMs === undefined || found.expiresAtMs === expiresAtMs;
      return steps.next(isKept ? { kind: "wait" } : { kind: "set-expiry", sandboxId: id, expiresAtMs });
    }
    return steps.next({ kind: "write", status: withoutLoss(steps.draft("Running", "")), releases: false });
  }
  const ended = found.phase === "stopped" ? "Succeeded" : "Failed";
  const message = found.message === "" ? `exit code ${found.exitCode ?? -1}` : found.message;
  const finished = withoutLoss(steps.draft(ended, message, { exitCode: found.exitCode ?? -1, finishTime: formatTime(now) }));
  return steps.next({ kind: "write", status: finished, releases: true });
}

/** Its agent reports, but without it. `hasLog`: the agent still keeps its log. */
function decideAbsent(sandbox: DeepReadonly<Sandbox>, hasLog: boolean, steps: Steps): SandboxDecision {
  const { status = {} } = sandbox;
  if (isAuto(sandbox)) {
    if (hasLog) return steps.next({ kind: "delete", sandboxId: status.sandboxID ?? "" });
    return steps.next({ kind: "write", status: steps.restart("its agent no longer has it"), releases: true });
  }
  const message = "its agent no longer has it; reset it to start it again";
  if (status.phase === "Lost" && status.message === message) return steps.next({ kind: "wait" });
  return steps.next({ kind: "write", status: steps.draft("Lost", message), releases: true });
}

function decideLost({ sandbox, agent, now }: SandboxObservation, steps: Steps): SandboxDecision {
  const { status = {}, spec } = sandbox;
  const since = status.agentLostTime === undefined ? now : Date.parse(status.agentLostTime);
  const isDeleted = agent.kind === "deleted" || agent.kind === "none";
  const dueMs = since + (spec.recoveryTimeoutSeconds ?? 60) * 1000 - now;
  if (isAuto(sandbox) && (isDeleted || dueMs <= 0)) {
    const restarted = steps.restart(isDeleted ? "its agent was deleted" : "its agent did not report in time");
    return steps.next({ kind: "write", status: restarted, releases: true });
  }
  const message = isDeleted ? "its agent was deleted; reset it to start it again" : "its agent has stopped reporting";
  const retryMs = isAuto(sandbox) ? dueMs : undefined;
  if (status.phase === "Lost" && status.message === message) return steps.next({ kind: "wait" }, retryMs);
  const lost = steps.draft("Lost", message, { agentLostTime: formatTime(since) });
  return steps.next({ kind: "write", status: lost, releases: isDeleted }, retryMs);
}

/** Whether the agent certainly has no sandbox of this id. */
function isAbsent(agent: AgentView, sandboxId: string): boolean {
  if (agent.kind === "none" || agent.kind === "deleted") return true;
  return agent.kind === "ready" && !agent.status.sandboxStatuses.some((each) => each.sandboxId === sandboxId);
}
