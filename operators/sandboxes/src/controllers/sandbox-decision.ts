import { createHash } from "node:crypto";
import { type Condition, type DeepReadonly, isJsonObject, setCondition } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import type { AgentStatus } from "../protocol/protocol.ts";
import { allocationAnnotation, cleanupFinalizer, sandboxIdPattern } from "../api/names.ts";
import type { Phase, Sandbox } from "../api/sandbox.ts";

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
  | { readonly kind: "gone" }
  /** It does not report. */
  | { readonly kind: "unreachable" }
  | { readonly kind: "ready"; readonly status: AgentStatus };

/** The input of a decision. */
export interface SandboxObservation {
  readonly sandbox: DeepReadonly<Sandbox>;
  readonly agent: AgentView;
  readonly now: number;
}

/** The status to write; omitted fields are removed. */
export type SandboxStatusDraft = Omit<NonNullable<Sandbox["status"]>, "runtime">;

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

const isAuto = (sandbox: DeepReadonly<Sandbox>): boolean => /^autorecreate$/i.test(sandbox.spec.failurePolicy ?? "Manual");

/** Whether its program has terminated, which frees its slot. */
export const hasEnded = ({ status }: DeepReadonly<Sandbox>): boolean =>
  ["Succeeded", "Failed", "Expired"].includes(status?.phase ?? "");

/** Decides the next step of a Sandbox. */
export function decideSandbox(observation: SandboxObservation): SandboxDecision {
  const { sandbox, agent, now } = observation;
  const { metadata, spec, status = {} } = sandbox;
  const hasFinalizer = metadata.finalizers?.includes(cleanupFinalizer) ?? false;
  const draft = (phase: Phase, message: string, change: Partial<SandboxStatusDraft> = {}): SandboxStatusDraft =>
    draftOf(sandbox, phase, message, now, change);

  if (metadata.deletionTimestamp !== undefined) {
    if (!hasFinalizer) return { step: { kind: "wait" } };
    const id = status.sandboxID ?? fastPathAllocation(sandbox)?.sandboxId;
    if (id === undefined || isAbsent(agent, id)) return { step: { kind: "remove-finalizer" } };
    if (status.phase !== "Terminating") {
      const place = fastPathAllocation(sandbox);
      const bound = status.assignedPod ?? place?.pod;
      const terminating = draft("Terminating", "stopping", {
        sandboxID: id,
        ...(bound !== undefined && { assignedPod: bound }),
      });
      return { step: { kind: "write", status: terminating, releases: false } };
    }
    return agent.kind === "ready" ? { step: { kind: "delete", sandboxId: id } } : { step: { kind: "wait" } };
  }
  if (!hasFinalizer) return { step: { kind: "add-finalizer" } };

  const reset = spec.resetRevision;
  const isReset = reset !== undefined && Date.parse(reset) > Date.parse(status.acceptedResetRevision ?? "1970-01-01T00:00:00Z");
  const expiry = expiryOf(spec);
  const isExpired = expiry !== undefined && expiry <= now;
  const requeueAfterMs = expiry !== undefined && !isExpired ? expiry - now : undefined;
  const later = (step: SandboxStep, otherMs?: number): SandboxDecision => {
    const times = [requeueAfterMs, otherMs].filter((ms) => ms !== undefined);
    return times.length === 0 ? { step } : { step, requeueAfterMs: Math.min(...times) };
  };
  /** Deletes the current instance, then writes `next`. */
  const leave = (next: SandboxStatusDraft): SandboxDecision => {
    const id = status.sandboxID ?? fastPathAllocation(sandbox)?.sandboxId;
    if (id === undefined || isAbsent(agent, id)) return later({ kind: "write", status: next, releases: true });
    if (agent.kind === "ready") return later({ kind: "delete", sandboxId: id });
    // Unreachable: it may still run. Wait until the agent reports again or is deleted.
    return later({ kind: "wait" });
  };
  const again = (message: string): SandboxStatusDraft =>
    unbound(draft("Pending", message, { instance: (status.instance ?? 0) + 1 }));

  if (isExpired && !(isReset && expiry > now)) {
    return status.phase === "Expired" ? { step: { kind: "wait" } } : leave(unbound(draft("Expired", "reached its expireTime")));
  }
  if (isReset) {
    return leave({ ...again(`reset (${reset})`), acceptedResetRevision: reset });
  }

  switch (status.phase) {
    case undefined:
    case "Pending": {
      const place = fastPathAllocation(sandbox);
      if (place === undefined) return later({ kind: "place", status: draft("Creating", "", {}) });
      const bound = { assignedPod: place.pod, nodeName: place.node, sandboxID: place.sandboxId };
      return later({ kind: "write", status: draft("Creating", `started on agent ${place.pod}`, bound), releases: false });
    }
    case "Creating":
    case "Bound": {
      if (status.sandboxID === undefined)
        return later({ kind: "write", status: again("not assigned to an agent"), releases: true });
      if (agent.kind === "gone" || agent.kind === "none")
        return later({ kind: "write", status: again("its agent was deleted"), releases: true });
      if (agent.kind === "unreachable") return lost(observation, later, again, draft);
      return later({ kind: "create", sandboxId: status.sandboxID });
    }
    case "Running":
    case "Lost":
      return running(observation, later, again, draft);
    case "Expired":
      // Changing expireTime does not restart it; a reset does.
      return later({ kind: "wait" });
    default:
      return later({ kind: "wait" });
  }
}

type Later = (step: SandboxStep, otherMs?: number) => SandboxDecision;
type Draft = (phase: Phase, message: string, change?: Partial<SandboxStatusDraft>) => SandboxStatusDraft;

function running(
  { sandbox, agent, now }: SandboxObservation,
  later: Later,
  again: (message: string) => SandboxStatusDraft,
  draft: Draft,
): SandboxDecision {
  const { status = {} } = sandbox;
  const id = status.sandboxID ?? "";
  if (agent.kind !== "ready") return lost({ sandbox, agent, now }, later, again, draft);
  const found = agent.status.sandboxStatuses.find((each) => each.sandboxId === id);
  if (found === undefined || found.phase === "terminated") {
    if (isAuto(sandbox)) {
      // Delete what is left of it (its log) first.
      if (found !== undefined) return later({ kind: "delete", sandboxId: id });
      return later({ kind: "write", status: again("its agent no longer has it"), releases: true });
    }
    const message = "its agent no longer has it; reset it to start it again";
    return status.phase === "Lost" && status.message === message
      ? later({ kind: "wait" })
      : later({ kind: "write", status: draft("Lost", message), releases: true });
  }
  // Being deleted by another party: wait until the agent no longer has it.
  if (found.phase === "terminating") return later({ kind: "wait" });
  if (found.phase === "running" || found.phase === "creating") {
    if (status.phase === "Running" && status.observedGeneration === sandbox.metadata.generation) {
      const expiresAtMs = expiryOf(sandbox.spec) ?? null;
      const isKept = found.expiresAtMs === undefined || found.expiresAtMs === expiresAtMs;
      return later(isKept ? { kind: "wait" } : { kind: "set-expiry", sandboxId: id, expiresAtMs });
    }
    return later({ kind: "write", status: withoutLoss(draft("Running", "")), releases: false });
  }
  const ended = found.phase === "stopped" ? "Succeeded" : "Failed";
  const message = found.message === "" ? `exit code ${found.exitCode ?? -1}` : found.message;
  const finished = withoutLoss(draft(ended, message, { exitCode: found.exitCode ?? -1, finishTime: formatTime(now) }));
  return later({ kind: "write", status: finished, releases: true });
}

function lost(
  { sandbox, agent, now }: SandboxObservation,
  later: Later,
  again: (message: string) => SandboxStatusDraft,
  draft: Draft,
): SandboxDecision {
  const { status = {}, spec } = sandbox;
  const since = status.agentLostTime === undefined ? now : Date.parse(status.agentLostTime);
  const isGone = agent.kind === "gone" || agent.kind === "none";
  const dueMs = since + (spec.recoveryTimeoutSeconds ?? 60) * 1000 - now;
  if (isAuto(sandbox) && (isGone || dueMs <= 0)) {
    return later({
      kind: "write",
      status: again(isGone ? "its agent was deleted" : "its agent did not report in time"),
      releases: true,
    });
  }
  const message = isGone ? "its agent was deleted; reset it to start it again" : "its agent has stopped reporting";
  if (status.phase !== "Lost" || status.message !== message) {
    const draftLost = draft("Lost", message, { agentLostTime: formatTime(since) });
    return later({ kind: "write", status: draftLost, releases: isGone }, isAuto(sandbox) ? dueMs : undefined);
  }
  return later({ kind: "wait" }, isAuto(sandbox) ? dueMs : undefined);
}

/** Whether the agent certainly has no sandbox of this id. */
function isAbsent(agent: AgentView, sandboxId: string): boolean {
  if (agent.kind === "none" || agent.kind === "gone") return true;
  return agent.kind === "ready" && !agent.status.sandboxStatuses.some((each) => each.sandboxId === sandboxId);
}

/** The next status, derived from the current one. */
export function draftOf(
  sandbox: DeepReadonly<Sandbox>,
  phase: Phase,
  message: string,
  now: number,
  change: Partial<SandboxStatusDraft> = {},
): SandboxStatusDraft {
  const { runtime: _, ...before } = sandbox.status ?? {};
  const conditions = setCondition(
    before.conditions as Condition[] | undefined,
    { type: "Ready", status: phase === "Running", reason: phase, message, observedGeneration: sandbox.metadata.generation },
    now,
  );
  return {
    ...(before as SandboxStatusDraft),
    phase,
    message,
    ...(sandbox.metadata.generation !== undefined && { observedGeneration: sandbox.metadata.generation }),
    conditions: [...conditions],
    ...change,
  };
}

/** A status without an assigned agent. */
export function unbound(status: SandboxStatusDraft): SandboxStatusDraft {
  const {
    assignedPod: _pod,
    nodeName: _node,
    sandboxID: _id,
    endpoints: _endpoints,
    agentLostTime: _lost,
    startTime: _start,
    exitCode: _exit,
    finishTime: _finish,
    ...rest
  } = status;
  return rest;
}

function withoutLoss(status: SandboxStatusDraft): SandboxStatusDraft {
  const { agentLostTime: _, ...rest } = status;
  return rest;
}
