import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import type { Phase, Sandbox } from "../api/sandbox.ts";

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
    ...(before.firstStartTime === undefined && !unstarted.includes(phase) && { firstStartTime: formatTime(now) }),
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

/** A status without the time since when its agent is lost. */
export function withoutLoss(status: SandboxStatusDraft): SandboxStatusDraft {
  const { agentLostTime: _, ...rest } = status;
  return rest;
}
