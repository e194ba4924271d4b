import { pullBackOff } from "./container-restart.ts";
import { change, type ContainerRecord, planOf, type PodEffect, type PodEvent, type PodState, probeSpec } from "./pod-state.ts";
import { graceMs, type PlannedContainer, type PodView } from "./pod-view.ts";
import { firstProbes, type ProbeKind, type ProbeRecord, recordProbe } from "../probes/probe-record.ts";

const setupRetryMs = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 122_000];

/** A rejected start (for example a missing ConfigMap) is retried after this time, or when a referenced object changes. */
const refusedRetryMs = 10_000;

/** Applies an event to the state. What follows from the new state is decided by `stepPod`. */
export function applyEvent(state: PodState, event: PodEvent, now: number, effects: PodEffect[]): PodState {
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

/** Stops a container, unless it is already stopping with at most this grace period. */
export function kill(record: ContainerRecord, grace: number, effects: PodEffect[], reason: string): ContainerRecord {
  if (record.stopGraceMs !== undefined && record.stopGraceMs <= grace) return record;
  if (record.stopGraceMs === undefined) {
    const note = reason === "" ? `Stopping container ${record.name}` : `Container ${record.name} ${reason}`;
    effects.push({ kind: "event", type: "Normal", reason: "Killing", note });
  }
  effects.push({ kind: "stop", name: record.name, attempt: record.attempt, graceMs: grace });
  return { ...record, stopGraceMs: grace, isReady: false };
}

function isRefusal(reason: string): boolean {
  return reason === "CreateContainerConfigError" || reason === "CreateContainerError";
}
