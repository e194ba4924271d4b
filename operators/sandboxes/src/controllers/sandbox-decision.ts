import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import type { SandboxStatus } from "../protocol/protocol.ts";
import { cleanupFinalizer } from "../api/names.ts";
import type { Sandbox } from "../api/sandbox.ts";
import { fastPathAllocation } from "./instance.ts";
import { lifetimeEnd } from "./lifetime.ts";
import { isAbsent, reportOf, type SandboxDecision, type SandboxObservation, Steps } from "./sandbox-steps.ts";
import { draftOf, resumed, type SandboxStatusDraft, unbound, withoutLoss } from "./status-draft.ts";

/*
 * The life cycle of a Sandbox:
 *
 *     Pending --> Creating --> Running --> Succeeded | Failed        (its program ended)
 *        ^           |            |------> Lost                      (its agent was lost)
 *        |-----------+------------+--reset, or AutoRecreate from Lost
 *     Running <--state--> Paused     any of these --expiry--> Terminating --> Expired     any --deletion--> Terminating --> deleted
 *
 * One reconcile takes one step. A step that acts on an agent uses a sandboxID that the API already has, so that it can be repeated
 * after a crash. An expiry is committed by writing `expiredTime` under the object's resourceVersion, so a renewal comes either before it or
 * too late, never in between.
 */

const isAuto = (sandbox: DeepReadonly<Sandbox>): boolean => /^autorecreate$/i.test(sandbox.spec.failurePolicy ?? "Manual");

/** Whether its program has terminated, which frees its slot. */
export const hasEnded = ({ status }: DeepReadonly<Sandbox>): boolean =>
  ["Succeeded", "Failed", "Expired"].includes(status?.phase ?? "");

/** Interval at which the deletion of a sandbox that its agent is stopping is checked. */
const deletionRetryMs = 15_000;

/** Decides the next step of a Sandbox. */
export function decideSandbox(observation: SandboxObservation): SandboxDecision {
  const { metadata, spec, status = {} } = observation.sandbox;
  const hasFinalizer = metadata.finalizers?.includes(cleanupFinalizer) ?? false;
  if (metadata.deletionTimestamp !== undefined) return hasFinalizer ? decideDeletion(observation) : { step: { kind: "wait" } };
  if (!hasFinalizer) return { step: { kind: "add-finalizer" } };

  const steps = new Steps(observation);
  const reset = spec.resetRevision;
  const isReset = reset !== undefined && Date.parse(reset) > Date.parse(status.acceptedResetRevision ?? "1970-01-01T00:00:00Z");
  if (status.phase === "Expired") {
    if (steps.isExpired || !isReset) return steps.finish();
  } else if (steps.expiryReason !== undefined) return steps.expire(steps.expiryReason);
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
    case "Paused":
    case "Lost":
      return decideRunning(observation, steps);
    default:
      // Changing the expireTime of an expired Sandbox does not restart it; a reset does.
      return steps.finish();
  }
}

function decideDeletion({ sandbox, agent, now }: SandboxObservation): SandboxDecision {
  const { status = {} } = sandbox;
  const allocation = fastPathAllocation(sandbox);
  const sandboxID = status.sandboxID ?? allocation?.sandboxId;
  if (sandboxID === undefined || isAbsent(agent, sandboxID)) return { step: { kind: "remove-finalizer" } };
  if (status.phase === "Terminating") {
    if (agent.kind !== "ready") return { step: { kind: "wait" } };
    // The agent is stopping it. If the agent restarts in the meantime, it is asked again.
    if (reportOf(sandbox, agent)?.phase === "terminating") return { step: { kind: "wait" }, requeueAfterMs: deletionRetryMs };
    return { step: { kind: "delete", sandboxId: sandboxID } };
  }
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

function decideRunning(observation: SandboxObservation, steps: Steps): SandboxDecision {
  const { sandbox, agent, now } = observation;
  if (agent.kind !== "ready") return decideLost(observation, steps);
  const found = reportOf(sandbox, agent);
  if (found === undefined || found.phase === "terminated") return decideAbsent(sandbox, found !== undefined, steps);
  // Being deleted by another party: wait until the agent no longer has it.
  if (found.phase === "terminating") return steps.next({ kind: "wait" });
  if (found.phase === "running" || found.phase === "creating") return decideAlive(observation, found, steps);
  const ended = found.phase === "stopped" ? "Succeeded" : "Failed";
  const message = found.message === "" ? `exit code ${found.exitCode ?? -1}` : found.message;
  const finished = withoutLoss(steps.draft(ended, message, { exitCode: found.exitCode ?? -1, finishTime: formatTime(now) }));
  return steps.next({ kind: "write", status: finished, releases: true });
}

/** Its program has not terminated. */
function decideAlive({ sandbox, now }: SandboxObservation, found: SandboxStatus, steps: Steps): SandboxDecision {
  const { status = {}, spec, metadata } = sandbox;
  const { sandboxId } = found;
  const isPaused = found.paused === true;
  const phase = isPaused ? "Paused" : "Running";
  if (status.phase !== phase || status.observedGeneration !== metadata.generation) {
    const pausedTime = status.pausedTime ?? formatTime(now);
    const draft = withoutLoss(steps.draft(phase, "", isPaused ? { pausedTime } : {}));
    return steps.next({ kind: "write", status: isPaused ? draft : resumed(spec, draft, now), releases: false });
  }
  if (isPaused) {
    if (spec.state === "Paused") return steps.next({ kind: "wait" });
    const continued = { spec, status: resumed(spec, status as SandboxStatusDraft, now) };
    return steps.next({ kind: "resume", sandboxId, expiresAtMs: lifetimeEnd(continued) ?? null });
  }
  if (spec.state === "Paused") return steps.next({ kind: "pause", sandboxId });
  const expiresAtMs = lifetimeEnd(sandbox) ?? null;
  const isKept = found.expiresAtMs === undefined || found.expiresAtMs === expiresAtMs;
  return steps.next(isKept ? { kind: "wait" } : { kind: "set-expiry", sandboxId, expiresAtMs });
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
