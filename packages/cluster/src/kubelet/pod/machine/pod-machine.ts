import { hasFailedPermanently, isPassed, restarts, runOne } from "./container-restart.ts";
import { applyEvent, kill } from "./pod-events.ts";
import {
  change,
  type ContainerRecord,
  isInitRole,
  type PodEffect,
  type PodEvent,
  type PodState,
  type PodStep,
} from "./pod-state.ts";
import { resizeContainers } from "../../resources/pod-resize.ts";
import { recordedEnd } from "../status/recorded-end.ts";
import { graceMs, type Role } from "../pod-view.ts";
import type { ProbeKind } from "../../probes/probe-record.ts";

/**
 * The life of a Pod on its node as a pure step function `(state, event, now) -> (state, effects)`. `now` comes from `steadyTime`, which
 * never jumps. Events about an earlier attempt change nothing, so they may arrive late or twice.
 */
export function stepPod(state: PodState, event: PodEvent, now: number): PodStep {
  const effects: PodEffect[] = [];
  const next = advance(applyEvent(state, event, now, effects), now, effects);
  return { state: next, effects };
}

/** When {@link stepPod} needs the next `tick`; `undefined` if only an event can change something. */
export function nextWake(state: PodState): number | undefined {
  if (state.isReleased) return undefined;
  let wake = Number.POSITIVE_INFINITY;
  const deadline = deadlineOf(state);
  if (state.stop === undefined && state.end === undefined) {
    if (deadline !== undefined) wake = deadline;
    if (state.setup === "none") wake = Math.min(wake, state.setupRetryAt);
    for (const record of state.containers) {
      if (record.current.kind === "waiting" && record.retryAt > 0) wake = Math.min(wake, record.retryAt);
    }
  }
  for (const record of state.containers) {
    if (record.current.kind !== "running" || record.stopGraceMs !== undefined) continue;
    wake = Math.min(wake, record.resizeAt ?? wake);
    for (const kind of dueProbes(record)) {
      const probe = record.probes[kind];
      if (probe !== undefined && !probe.isRunning) wake = Math.min(wake, probe.nextAt);
    }
  }
  return wake === Number.POSITIVE_INFINITY ? undefined : wake;
}

/** Applies the transitions that follow from the state and the time. */
function advance(before: PodState, now: number, effects: PodEffect[]): PodState {
  let state = decideStop(before, now, effects);
  if (state.stop !== undefined || state.end !== undefined) state = shutDown(state, effects);
  else if (state.setup !== "done") state = prepare(state, now, effects);
  else state = run(state, now, effects);
  return runProbes(resizeContainers(state, now, effects), now, effects);
}

function deadlineOf(state: PodState): number | undefined {
  const seconds = state.pod.spec.activeDeadlineSeconds;
  return seconds === undefined ? undefined : state.startTime + seconds * 1000;
}

function decideStop(state: PodState, now: number, effects: PodEffect[]): PodState {
  if (state.pod.metadata.deletionTimestamp !== undefined) {
    const grace = graceMs(state.pod);
    return {
      ...state,
      stop: { reason: state.stop?.reason ?? "deleted", graceMs: Math.min(state.stop?.graceMs ?? grace, grace) },
    };
  }
  if (state.end === undefined) {
    const recorded = recordedEnd(state.pod);
    if (recorded.end !== undefined) return { ...state, ...recorded };
  }
  const deadline = deadlineOf(state);
  if (state.stop === undefined && state.end === undefined && deadline !== undefined && deadline <= now) {
    const note = "Pod was active on the node longer than the specified deadline";
    effects.push({ kind: "event", type: "Normal", reason: "DeadlineExceeded", note });
    return { ...state, stop: { reason: "deadline", graceMs: graceMs(state.pod) } };
  }
  return state;
}

const isActive = ({ current }: ContainerRecord): boolean => current.kind === "running" || current.kind === "starting";

/** Stops the main containers, then the sidecars in reverse order, then ends the Pod. */
function shutDown(before: PodState, effects: PodEffect[]): PodState {
  let state = before;
  const grace = state.stop?.graceMs ?? graceMs(state.pod);
  const others = state.containers.filter((record) => record.role !== "sidecar" && isActive(record));
  const sidecars = state.containers.filter((record) => record.role === "sidecar" && isActive(record));
  const lastSidecar = sidecars.at(-1);
  const targets = others.length > 0 ? others : lastSidecar === undefined ? [] : [lastSidecar];
  for (const target of targets) {
    if (target.current.kind === "running") state = change(state, target.name, (record) => kill(record, grace, effects, ""));
  }
  if (others.length + sidecars.length > 0) return state;
  if (state.end === undefined) state = { ...state, end: endOf(state) };
  if (state.pod.metadata.deletionTimestamp !== undefined && !state.isReleased) {
    // A running setup writes into the Pod's directory, so its result must arrive before the directory is removed.
    if (state.setup === "running") return state;
    effects.push({ kind: "release" });
    return { ...state, isReleased: true };
  }
  return state;
}

function endOf(state: PodState): "Succeeded" | "Failed" {
  if (state.stop?.reason === "deadline" || state.stop?.reason === "evicted") return "Failed";
  const mains = state.containers.filter(({ role }) => role === "main");
  const hasSucceeded = mains.every(({ current }) => current.kind === "terminated" && current.finished.exitCode === 0);
  return hasSucceeded ? "Succeeded" : "Failed";
}

function prepare(state: PodState, now: number, effects: PodEffect[]): PodState {
  if (state.setup !== "none" || state.setupRetryAt > now) return state;
  effects.push({ kind: "prepare" });
  return { ...state, setup: "running" };
}

/** Starts the containers that are due, in order. */
function run(before: PodState, now: number, effects: PodEffect[]): PodState {
  let state = startAll(before, "ephemeral", now, effects);
  for (const { name, role } of before.containers) {
    if (!isInitRole(role)) continue;
    state = change(state, name, (record) => runOne(state.pod, record, now, effects));
    const record = state.containers.find((each) => each.name === name);
    if (record === undefined) continue;
    if (record.role === "init" && hasFailedPermanently(state.pod, record))
      return shutDown({ ...state, end: "Failed" }, effects);
    if (!isPassed(record)) return state;
  }
  state = startAll(state, "main", now, effects);
  const mains = state.containers.filter(({ role }) => role === "main");
  const isOver = mains.every((record) => record.current.kind === "terminated" && !restarts(state.pod, record));
  return isOver ? shutDown({ ...state, end: endOf(state) }, effects) : state;
}

/** Starts the containers of a role that are due. */
function startAll(before: PodState, role: Role, now: number, effects: PodEffect[]): PodState {
  return before.containers
    .filter((record) => record.role === role)
    .reduce((state, { name }) => change(state, name, (record) => runOne(state.pod, record, now, effects)), before);
}

/** The probes that run now: only the startup probe until it has succeeded. */
function dueProbes(record: ContainerRecord): readonly ProbeKind[] {
  if (record.isHooked) return [];
  return record.probes.startup !== undefined && !record.isStarted ? ["startup"] : ["liveness", "readiness"];
}

function runProbes(state: PodState, now: number, effects: PodEffect[]): PodState {
  let next = state;
  for (const record of state.containers) {
    if (record.current.kind !== "running" || record.stopGraceMs !== undefined) continue;
    for (const kind of dueProbes(record)) {
      const probe = record.probes[kind];
      if (probe === undefined || probe.isRunning || probe.nextAt > now) continue;
      effects.push({ kind: "probe", name: record.name, attempt: record.attempt, probe: kind });
      next = change(next, record.name, (each) => ({
        ...each,
        probes: { ...each.probes, [kind]: { ...probe, isRunning: true, startedAt: now } },
      }));
    }
  }
  return next;
}
