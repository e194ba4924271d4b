import { hasFailedPermanently, isPassed, pullBackOff, restarts, runOne } from "./container-restart.ts";
import {
  change,
  type ContainerRecord,
  planOf,
  type PodEffect,
  type PodEvent,
  type PodState,
  type PodStep,
  probeSpec,
} from "./pod-state.ts";
import { graceMs, type PlannedContainer, type PodView } from "./pod-view.ts";
import { firstProbes, type ProbeKind, type ProbeRecord, recordProbe } from "../probes/probe-record.ts";

const setupRetryMs = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 122_000];

/** A rejected start (for example a missing ConfigMap) is retried after this time, or when a referenced object changes. */
const refusedRetryMs = 10_000;

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
    for (const kind of dueProbes(record)) {
      const probe = record.probes[kind];
      if (probe !== undefined && !probe.isRunning) wake = Math.min(wake, probe.nextAt);
    }
  }
  return wake === Number.POSITIVE_INFINITY ? undefined : wake;
}

function applyEvent(state: PodState, event: PodEvent, now: number, effects: PodEffect[]): PodState {
  switch (event.kind) {
    case "tick":
      return state;
    case "changed":
      // A referenced object that was missing may exist now.
      return {
        ...state,
        pod: event.pod,
        setupRetryAt: Math.min(state.setupRetryAt, now),
        containers: state.containers.map((record) =>
          record.current.kind === "waiting" && isRefusal(record.current.reason) ? { ...record, retryAt: now } : record,
        ),
      };
    case "prepared": {
      const { setupProblem: _, ...rest } = state;
      return { ...rest, setup: "done" };
    }
    case "prepare-failed": {
      if (state.setupProblem !== event.message) {
        effects.push({ kind: "event", type: "Warning", reason: "FailedMount", note: event.message });
      }
      const pause = setupRetryMs[Math.min(state.setupFailures, setupRetryMs.length - 1)] ?? 0;
      return {
        ...state,
        setup: "none",
        setupProblem: event.message,
        setupRetryAt: now + pause,
        setupFailures: state.setupFailures + 1,
      };
    }
    case "started":
      return change(state, event.name, (record) => {
        if (record.attempt !== event.attempt || record.current.kind !== "starting") return record;
        effects.push({ kind: "event", type: "Normal", reason: "Started", note: `Started container ${record.name}` });
        const { container } = planOf(state.pod, record.name);
        const isHooked = container.lifecycle?.postStart !== undefined;
        if (isHooked) effects.push({ kind: "post-start", name: record.name, attempt: record.attempt });
        return running({ ...record, isHooked }, container, event.at, now);
      });
    case "refused":
      return change(state, event.name, (record) => {
        if (record.attempt !== event.attempt || record.current.kind !== "starting") return record;
        const failed = (note: string): void => void effects.push({ kind: "event", type: "Warning", reason: "Failed", note });
        if (event.reason === "ErrImagePull") {
          failed(event.message);
          failed("Error: ErrImagePull");
          return pullBackOff(planOf(state.pod, record.name).container, record, event.message, now, effects);
        }
        failed(`Error: ${event.message}`);
        return {
          ...record,
          current: { kind: "waiting", reason: event.reason, message: event.message },
          retryAt: now + refusedRetryMs,
        };
      });
    case "exited":
      return change(state, event.name, (record) => {
        const isCurrent = record.attempt === event.finished.attempt;
        if (!isCurrent || (record.current.kind !== "running" && record.current.kind !== "starting")) return record;
        const { stopGraceMs: _, ...rest } = record;
        const isReady = record.role === "init" && event.finished.exitCode === 0;
        if (event.finished.reason === "StartError") {
          effects.push({ kind: "event", type: "Warning", reason: "Failed", note: `Error: ${event.finished.message}` });
        }
        return {
          ...rest,
          current: {
            kind: "terminated",
            finished: event.finished,
            endedAt: now,
            ranMs: record.current.kind === "running" ? now - record.current.since : 0,
          },
          isStarted: false,
          isReady,
          isHooked: false,
          probes: {},
        };
      });
    case "hooked":
      return change(state, event.name, (record) => {
        if (record.attempt !== event.attempt || record.current.kind !== "running") return record;
        const after = { ...record, isHooked: false };
        if (event.problem === undefined) return after;
        effects.push({ kind: "event", type: "Warning", reason: "FailedPostStartHook", note: event.problem });
        return kill(after, graceMs(state.pod), effects, "FailedPostStartHook");
      });
    case "probed":
      return change(state, event.name, (record) => {
        const before = record.probes[event.probe];
        if (record.attempt !== event.attempt || record.current.kind !== "running" || before === undefined) return record;
        return probed(state.pod, record, event.probe, before, event.problem, now, effects);
      });
  }
}

function probed(
  pod: PodView,
  record: ContainerRecord,
  kind: ProbeKind,
  before: ProbeRecord,
  problem: string | undefined,
  now: number,
  effects: PodEffect[],
): ContainerRecord {
  const { container } = planOf(pod, record.name);
  const spec = probeSpec(container, kind);
  if (spec === undefined) return record;
  const { probe, verdict } = recordProbe(before, spec, problem === undefined, now);
  const after = { ...record, probes: { ...record.probes, [kind]: probe } };
  if (problem !== undefined) {
    const what = `${kind[0]?.toUpperCase()}${kind.slice(1)} probe failed: ${problem}`;
    effects.push({ kind: "event", type: "Warning", reason: "Unhealthy", note: what });
  }
  if (verdict === undefined) return after;
  if (kind === "readiness") return { ...after, isReady: verdict === "success" };
  if (verdict === "success") return kind === "startup" ? started(after, container) : after;
  if (record.stopGraceMs !== undefined) return after;
  const grace = spec.terminationGracePeriodSeconds;
  return kill(after, grace === undefined ? graceMs(pod) : grace * 1000, effects, `failed ${kind} probe, will be restarted`);
}

/** A container with a running program: `startedAt` is wall-clock time, `since` the time of {@link stepPod}. */
export function running(
  record: ContainerRecord,
  container: PlannedContainer["container"],
  startedAt: number,
  since: number,
): ContainerRecord {
  const probes = firstProbes(container, since);
  const { pullFailures: _, ...rest } = record;
  const next: ContainerRecord = {
    ...rest,
    current: { kind: "running", startedAt, since },
    isStarted: false,
    isReady: false,
    probes,
    retryAt: 0,
  };
  return probes.startup === undefined ? started(next, container) : next;
}

function started(record: ContainerRecord, container: PlannedContainer["container"]): ContainerRecord {
  return { ...record, isStarted: true, isReady: container.readinessProbe === undefined };
}

function kill(record: ContainerRecord, grace: number, effects: PodEffect[], reason: string): ContainerRecord {
  if (record.stopGraceMs !== undefined && record.stopGraceMs <= grace) return record;
  if (record.stopGraceMs === undefined) {
    const note = reason === "" ? `Stopping container ${record.name}` : `Container ${record.name} ${reason}`;
    effects.push({ kind: "event", type: "Normal", reason: "Killing", note });
  }
  effects.push({ kind: "stop", name: record.name, attempt: record.attempt, graceMs: grace });
  return { ...record, stopGraceMs: grace, isReady: false };
}

/** Applies the transitions that follow from the state and the time. */
function advance(before: PodState, now: number, effects: PodEffect[]): PodState {
  let state = decideStop(before, now, effects);
  if (state.stop !== undefined || state.end !== undefined) state = shutDown(state, effects);
  else if (state.setup !== "done") state = prepare(state, now, effects);
  else state = run(state, now, effects);
  return runProbes(state, now, effects);
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
    // A running setup writes into the Pod's folder, so its result must arrive before the folder is removed.
    if (state.setup === "running") return state;
    effects.push({ kind: "release" });
    return { ...state, isReleased: true };
  }
  return state;
}

function endOf(state: PodState): "Succeeded" | "Failed" {
  if (state.stop?.reason === "deadline") return "Failed";
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
  let state = before;
  for (const { name, role } of before.containers) {
    if (role === "main") continue;
    state = change(state, name, (record) => runOne(state.pod, record, now, effects));
    const record = state.containers.find((each) => each.name === name);
    if (record === undefined) continue;
    if (record.role === "init" && hasFailedPermanently(state.pod, record)) return shutDown({ ...state, end: "Failed" }, effects);
    if (!isPassed(record)) return state;
  }
  for (const { name, role } of before.containers) {
    if (role === "main") state = change(state, name, (record) => runOne(state.pod, record, now, effects));
  }
  const mains = state.containers.filter(({ role }) => role === "main");
  const isOver = mains.every((record) => record.current.kind === "terminated" && !restarts(state.pod, record));
  return isOver ? shutDown({ ...state, end: endOf(state) }, effects) : state;
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

function isRefusal(reason: string): boolean {
  return reason === "CreateContainerConfigError" || reason === "CreateContainerError";
}
