import { pullBackOff } from "./container-restart.ts";
import {
  change,
  type ContainerRecord,
  newContainer,
  planOf,
  type PodEffect,
  type PodEvent,
  type PodState,
  probeSpec,
  type ResizeNews,
  evictedReason,
} from "./pod-state.ts";
import { resizeNote } from "../../resources/pod-resources.ts";
import { graceMs, type PlannedContainer, type PodView } from "../pod-view.ts";
import { firstProbes, type ProbeKind, type ProbeRecord, recordProbe } from "../../probes/probe-record.ts";

const setupRetryMs = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 122_000];

/** `immediateEvictionGracePeriodSeconds` of the kubelet. */
const evictionGraceMs = 1_000;

/** A rejected start (for example a missing ConfigMap) is retried after this time, or when a referenced object changes. */
const refusedRetryMs = 10_000;

/** A change of resources that failed is retried after this time, or when the Pod is resized again. */
const resizeRetryMs = 10_000;

/** Applies an event to the state. What follows from the new state is decided by `stepPod`. */
export function applyEvent(state: PodState, event: PodEvent, now: number, effects: PodEffect[]): PodState {
  switch (event.kind) {
    case "tick":
      return state;
    case "evicted":
      return evicted(state, event.message, effects);
    case "changed":
      return podChanged(state, event, now);
    case "resized":
      return resized(state, event, now, effects);
    case "prepared": {
      const { setupProblem: _, ...rest } = state;
      return { ...rest, setup: "done" };
    }
    case "prepare-failed":
      return prepareFailed(state, event.message, now, effects);
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
        return refused(state.pod, record, event, now, effects);
      });
    case "exited":
      return change(state, event.name, (record) => {
        const isCurrent = record.attempt === event.finished.attempt;
        if (!isCurrent || (record.current.kind !== "running" && record.current.kind !== "starting")) return record;
        return exited(record, event.finished, now, effects);
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

type EventOf<Kind extends PodEvent["kind"]> = Extract<PodEvent, { readonly kind: Kind }>;

/** The Pod changed, or an object that it refers to: one that was missing may exist now. */
function podChanged(before: PodState, { pod, resize }: EventOf<"changed">, now: number): PodState {
  const state = resize === undefined ? before : withResize(before, resize);
  return {
    ...state,
    pod,
    setupRetryAt: Math.min(state.setupRetryAt, now),
    containers: withAdded(state.containers, pod).map((record) =>
      record.current.kind === "waiting" && isRefusal(record.current.reason) ? { ...record, retryAt: now } : record,
    ),
  };
}

/** Fails the Pod, within the time that the kubelet gives in an eviction. A Pod that ends already is left alone. */
function evicted(state: PodState, message: string, effects: PodEffect[]): PodState {
  if (state.stop !== undefined || state.end !== undefined) return state;
  effects.push({ kind: "event", type: "Warning", reason: evictedReason, note: message });
  return { ...state, stop: { reason: "evicted", graceMs: evictionGraceMs }, failure: { reason: evictedReason, message } };
}

function withResize(state: PodState, news: ResizeNews): PodState {
  const { pendingResize: _, ...rest } = state;
  if (news.kind === "none") return rest;
  if (news.kind === "pending") {
    const { generation, reason, message } = news;
    return { ...rest, pendingResize: { generation, reason, message } };
  }
  const containers = rest.containers.map(({ resizeAt: __, ...record }) => record);
  return { ...rest, containers, resize: { generation: news.generation } };
}

function resized(state: PodState, event: EventOf<"resized">, now: number, effects: PodEffect[]): PodState {
  const { name, attempt, resources, problem } = event;
  const record = state.containers.find((each) => each.name === name);
  if (record === undefined || record.attempt !== attempt || record.current.kind !== "running") return state;
  const { isResizing: _, ...rest } = record;
  const next = problem === undefined ? { ...rest, actuated: resources } : { ...rest, resizeAt: now + resizeRetryMs };
  const after = change(state, name, () => next);
  if (problem === undefined || state.resize === undefined) return after;
  const { generation } = state.resize;
  if (state.resize.problem !== problem) {
    const note = resizeNote("Pod resize error", state.pod, generation, problem);
    effects.push({ kind: "event", type: "Warning", reason: "ResizeError", note });
  }
  return { ...after, resize: { generation, problem } };
}

/** Adds records of containers that were added to a running Pod. Only ephemeral ones can be. */
function withAdded(records: PodState["containers"], pod: PodView): PodState["containers"] {
  const added = (pod.spec.ephemeralContainers ?? []).filter(({ name }) => !records.some((record) => record.name === name));
  return [...records, ...added.map(({ name }) => newContainer(name, "ephemeral", "ContainerCreating"))];
}

function prepareFailed(state: PodState, message: string, now: number, effects: PodEffect[]): PodState {
  if (state.setupProblem !== message) {
    effects.push({ kind: "event", type: "Warning", reason: "FailedMount", note: message });
  }
  const pauseMs = setupRetryMs[Math.min(state.setupFailures, setupRetryMs.length - 1)] ?? 0;
  return {
    ...state,
    setup: "none",
    setupProblem: message,
    setupRetryAt: now + pauseMs,
    setupFailures: state.setupFailures + 1,
  };
}

function refused(
  pod: PodView,
  record: ContainerRecord,
  { reason, message }: EventOf<"refused">,
  now: number,
  effects: PodEffect[],
): ContainerRecord {
  const failed = (note: string): void => void effects.push({ kind: "event", type: "Warning", reason: "Failed", note });
  if (reason === "ErrImagePull") {
    failed(message);
    failed("Error: ErrImagePull");
    return pullBackOff(planOf(pod, record.name).container, record, message, now, effects);
  }
  failed(`Error: ${message}`);
  return { ...record, current: { kind: "waiting", reason, message }, retryAt: now + refusedRetryMs };
}

function exited(
  record: ContainerRecord,
  finished: EventOf<"exited">["finished"],
  now: number,
  effects: PodEffect[],
): ContainerRecord {
  const { stopGraceMs: _, ...rest } = record;
  if (finished.reason === "StartError") {
    effects.push({ kind: "event", type: "Warning", reason: "Failed", note: `Error: ${finished.message}` });
  }
  return {
    ...rest,
    current: {
      kind: "terminated",
      finished,
      endedAt: now,
      ranMs: record.current.kind === "running" ? now - record.current.since : 0,
    },
    isStarted: false,
    isReady: record.role === "init" && finished.exitCode === 0,
    isHooked: false,
    probes: {},
  };
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
