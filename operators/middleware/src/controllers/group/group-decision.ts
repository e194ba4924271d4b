import { type DeepReadonly, draft, jsonEquals } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { Group, type GroupSpec, type GroupStatus } from "../../api/group.ts";
import { annotations, versionAnnotation } from "../../api/names.ts";
import type { Decision } from "../effect.ts";
import { change } from "./change.ts";
import { changeAgentless } from "../agentless/change-agentless.ts";
import { reconcileAgentless } from "../agentless/reconcile-agentless.ts";
import { addDisruptions, disruptionsBetween, earlierDisruptions } from "./count-disruptions.ts";
import { type Next, wait } from "./next.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { recordPointOfNoReturn } from "../primary/point-of-no-return.ts";
import { requestedRestart } from "../primary/requested-restart.ts";
import { requestedSwitchover } from "../primary/requested-switchover.ts";
import { finish, withStep } from "./group-operation.ts";
import { reconcileTopology } from "./topology.ts";
import { setReady } from "../ready-condition.ts";
import { doneMessage, setRollout } from "./rollout-status.ts";
import type { GroupObservation } from "./observation.ts";
import { podStates, type PodView, podViews } from "./pod-view.ts";

/**
 * Decides about a Group. Pure: compares its Pods with their desired state and takes one step. Disruptions happen one
 * at a time and only while all other Pods are healthy: replicas first, and the primary role is handed over
 * before its Pod is touched. Intents are recorded in the status before they are executed. Every wait is for an event, except for the backoff
 * of Pods that end repeatedly.
 */
export function decideGroup(observed: GroupObservation): Decision {
  const { group, rendered, now } = observed;
  if (group.metadata.deletionTimestamp !== undefined) return { effects: [] };
  const { spec, metadata } = group;
  const status = draft(group.status ?? {}) as GroupStatus;
  beginOperation(spec, status, now);
  status.observedGeneration = metadata.generation ?? 0;
  const operation = status.operation;
  const isRunning = operation?.phase === "Running";
  const isCancelled = isRunning && metadata.annotations?.[annotations.cancelRequest] === operation.token;
  if ("problem" in rendered) return cannotRender(rendered.problem, group, status, now);
  status.hasAgents ??= hadAgents(observed) ?? rendered.hasAgents;
  if (status.hasAgents !== rendered.hasAgents) return cannotRender(agentChange(rendered), group, status, now);
  const views = podViews(observed, rendered);
  status.pods = podStates(views, status, rendered);
  status.replicas = spec.stopped ? 0 : spec.replicas;
  status.readyReplicas = status.pods.filter((pod) => pod.ready).length;
  const versions = new Set(status.pods.map((pod) => pod.version));
  const [version] = versions;
  if (versions.size === 1 && version !== undefined) status.currentVersion = version;

  recordPointOfNoReturn(views, status);
  let next = (rendered.hasAgents ? reconcileTopology : reconcileAgentless)(observed, rendered, views, status);
  const isSafe = [status.restarting, status.switchover, status.failover, status.fencing].every((each) => each === undefined);
  if (isCancelled && isSafe && (next.kind === "settled" || next.kind === "wait")) finish(operation, "Cancelled", "cancelled");
  else if (next.kind === "settled" && isRunning) next = changeUnlessPaused(observed, rendered, views, status);
  else if (next.kind === "settled") next = requestedSwitchover(group, views, status, rendered);
  // A Pod that does not start can be rebuilt.
  if (!isRunning && isSafe && (next.kind === "settled" || next.kind === "wait"))
    next = requestedRestart(group, views, status, rendered, next);
  if (isRunning && operation.phase === "Running") {
    if (next.kind === "settled") finish(operation, "Succeeded", doneMessage(spec, rendered));
    else if (next.kind === "fail") finish(operation, "Failed", next.message, next.errorClass);
    else operation.message = next.message;
  }
  if (next.kind === "record") record(next, status, isRunning, now);
  setRollout(spec, views, status);
  // An operation has its own message.
  if (next.kind === "settled" || operation?.phase === "Running") delete status.message;
  else status.message = next.message;
  const isWell = status.readyReplicas >= status.replicas;
  status.phase = operation?.phase === "Running" ? "Updating" : spec.stopped ? "Stopped" : isWell ? "Running" : "Degraded";
  setReady(status, now);
  const requeue = next.kind === "wait" && next.dueMs !== undefined ? { requeueAfterMs: Math.max(next.dueMs - now, 10) } : {};
  return { ...(changed(group, status) ?? { effects: next.kind === "do" ? next.effects : [] }), ...requeue };
}

/** Changes nothing but the status: the Group cannot be rendered, or must not be changed to what it renders to. Mutates `status`. */
function cannotRender(problem: string, group: DeepReadonly<Group>, status: GroupStatus, now: number): Decision {
  const { operation } = status;
  if (operation?.phase === "Running") finish(operation, "Failed", problem, "Config");
  else status.message = problem;
  status.phase = "Degraded";
  setReady(status, now);
  return changed(group, status) ?? { effects: [] };
}

/** Whether the existing Pods have agents. Undefined without Pods and a primary. */
function hadAgents({ group, pods }: GroupObservation): boolean | undefined {
  if (group.status?.primary !== undefined) return true;
  const [pod] = pods;
  return pod === undefined ? undefined : pod.metadata.annotations?.[versionAnnotation] === undefined;
}

/** Pods without agents know no primary: next to Pods with agents, or on their volumes, several could accept writes. */
const agentChange = ({ hasAgents }: RenderedGroup): string =>
  `the plugin runs Pods ${hasAgents ? "with" : "without"} agents, but those of this group run ${hasAgents ? "without" : "with"} agents: this must not change`;

/** Records a new operation of the spec. Mutates `status`. */
function beginOperation({ operation }: DeepReadonly<GroupSpec>, status: GroupStatus, now: number): void {
  if (operation === undefined || status.operation?.token === operation.token) return;
  const { token, scenario } = operation;
  const disruptions = earlierDisruptions(status.operation, token);
  status.operation = {
    ...{ token, scenario, phase: "Running", startedAt: formatTime(now), steps: [] },
    ...(disruptions === undefined ? {} : { disruptions }),
  };
  delete status.restartNeeded;
}

/** Applies the operation. A paused one may only end. */
function changeUnlessPaused(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  const next = (rendered.hasAgents ? change : changeAgentless)(observed, rendered, views, status);
  const isPaused = observed.group.metadata.annotations?.[annotations.pauseRequest] === status.operation?.token;
  return isPaused && next.kind !== "settled" && next.kind !== "fail" ? wait("paused") : next;
}

/** Records a step, and what it disrupts while an operation runs. Mutates `status`. */
function record(next: Extract<Next, { kind: "record" }>, status: GroupStatus, isRunning: boolean, now: number): void {
  const { restarting, primary, switchover } = status;
  next.change(status);
  const disruptions = disruptionsBetween({ restarting, primary, switchover }, status);
  if (disruptions !== undefined) status.disruptions = addDisruptions(status.disruptions, disruptions);
  const { operation } = status;
  if (operation === undefined) return;
  const stepped = next.step ? withStep(operation, ...next.step, now) : operation;
  const isCounted = isRunning && disruptions !== undefined;
  status.operation = isCounted ? { ...stepped, disruptions: addDisruptions(stepped.disruptions, disruptions) } : stepped;
}

function changed(group: DeepReadonly<Group>, status: GroupStatus): Decision | undefined {
  if (jsonEquals(status, group.status ?? {})) return undefined;
  return { effects: [{ kind: "status", type: Group, object: group, status }] };
}
