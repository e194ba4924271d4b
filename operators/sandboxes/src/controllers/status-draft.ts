import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import type { Phase, Sandbox } from "../api/sandbox.ts";
import { lifetimeStatus } from "./lifetime.ts";

/** The status to write; omitted fields are removed. */
export type SandboxStatusDraft = Omit<NonNullable<Sandbox["status"]>, "runtime">;

/** Phases before the first start. */
const unstarted: readonly Phase[] = ["Pending", "Creating", "Bound", "Terminating"];

/** The next status, derived from the current one. */
export function draftOf(
  sandbox: DeepReadonly<Sandbox>,
  phase: Phase,
  message: string,
  now: number,
  change: Partial<SandboxStatusDraft> = {},
): SandboxStatusDraft {
  const { runtime: _, expireTime: __, expiryBase: ___, ...before } = sandbox.status ?? {};
  const conditions = setCondition(
    before.conditions as Condition[] | undefined,
    { type: "Ready", status: phase === "Running", reason: phase, message, observedGeneration: sandbox.metadata.generation },
    now,
  );
  const firstStartTime = before.firstStartTime ?? (unstarted.includes(phase) ? undefined : formatTime(now));
  const next = {
    ...(before as SandboxStatusDraft),
    phase,
    message,
    ...(sandbox.metadata.generation !== undefined && { observedGeneration: sandbox.metadata.generation }),
    conditions: [...conditions],
    ...(firstStartTime !== undefined && { firstStartTime }),
    ...change,
  };
  const { expiryBase } = sandbox.status ?? {};
  const observed = { spec: sandbox.spec, status: { ...next, ...(expiryBase !== undefined && { expiryBase }) } };
  return { ...next, ...lifetimeStatus(observed) };
}

/** A status of a Sandbox that is no longer paused; the time is added to `pausedSeconds`. */
export function resumed(spec: DeepReadonly<Sandbox["spec"]>, status: SandboxStatusDraft, now: number): SandboxStatusDraft {
  const { pausedTime, ...rest } = status;
  if (pausedTime === undefined) return rest;
  // Rounded up, in favour of the sandbox.
  const seconds = Math.max(Math.ceil((now - Date.parse(pausedTime)) / 1000), 0);
  const next = { ...rest, pausedSeconds: (rest.pausedSeconds ?? 0) + seconds };
  return { ...next, ...lifetimeStatus({ spec, status: next }) };
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
    expiredTime: _expired,
    pausedTime: _paused,
    ...rest
  } = status;
  return rest;
}

/** A status without the time since when its agent is lost. */
export function withoutLoss(status: SandboxStatusDraft): SandboxStatusDraft {
  const { agentLostTime: _, ...rest } = status;
  return rest;
}
