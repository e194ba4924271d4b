import { backOffMs } from "./back-off.ts";
import { graceMs, type PlannedContainer, type PodView, plannedContainers, type ProbeView, type Role } from "./pod-view.ts";
import { firstProbes, type ProbeKind, type ProbeRecord, recordProbe } from "./probe-record.ts";

/** How an attempt of a container ended. */
export interface Finished {
  readonly attempt: number;
  readonly exitCode: number;
  readonly signal?: number;
  /** `Completed`, `Error`, `OOMKilled`, `StartError`, `ContainerStatusUnknown`. */
  readonly reason: string;
  readonly message: string;
  readonly startedAt?: number;
  readonly finishedAt: number;
}

/** Where a container stands. `starting`: its program was asked for and has not answered. */
export type Current =
  | { readonly kind: "waiting"; readonly reason: string; readonly message: string }
  | { readonly kind: "starting" }
  | { readonly kind: "running"; readonly startedAt: number }
  | { readonly kind: "terminated"; readonly finished: Finished };

/** One container in the state of its Pod. */
export interface ContainerRecord {
  readonly name: string;
  readonly role: Role;
  /** How often it was started again; names the program. */
  readonly attempt: number;
  readonly current: Current;
  readonly last?: Finished;
  /** Started attempts since it last ran well for long: what the back-off grows with. */
  readonly failures: number;
  /** Not started again before. */
  readonly retryAt: number;
  readonly isStarted: boolean;
  readonly isReady: boolean;
  /** A postStart hook is under way; until it ends the container is not shown as running. */
  readonly isHooked: boolean;
  /** Stopping, with this grace. */
  readonly stopGraceMs?: number;
  readonly probes: Readonly<Partial<Record<ProbeKind, ProbeRecord>>>;
}

/** Why a whole Pod stops. */
export type StopReason = "deleted" | "deadline";

/** Everything that is known about a Pod on this node. */
export interface PodState {
  readonly pod: PodView;
  /** When this node took the Pod over. */
  readonly startTime: number;
  readonly setup: "none" | "running" | "done";
  /** Why its volumes are not there yet; tried again at `setupRetryAt`. */
  readonly setupProblem?: string;
  readonly setupRetryAt: number;
  readonly setupFailures: number;
  readonly containers: readonly ContainerRecord[];
  readonly stop?: { readonly reason: StopReason; readonly graceMs: number };
  /** All that ran has ended and nothing starts again. */
  readonly end?: "Succeeded" | "Failed";
  /** The object may go; asked for once. */
  readonly isReleased: boolean;
}

/** What happens to a Pod. */
export type PodEvent =
  | { readonly kind: "changed"; readonly pod: PodView }
  | { readonly kind: "prepared" }
  | { readonly kind: "prepare-failed"; readonly message: string }
  | { readonly kind: "started"; readonly name: string; readonly attempt: number; readonly at: number }
  /** It could not even be tried: `CreateContainerConfigError`, `CreateContainerError`. */
  | {
      readonly kind: "refused";
      readonly name: string;
      readonly attempt: number;
      readonly reason: string;
      readonly message: string;
    }
  | { readonly kind: "exited"; readonly name: string; readonly finished: Finished }
  | { readonly kind: "hooked"; readonly name: string; readonly attempt: number; readonly problem?: string }
  | {
      readonly kind: "probed";
      readonly name: string;
      readonly attempt: number;
      readonly probe: ProbeKind;
      readonly problem?: string;
    }
  | { readonly kind: "tick" };

/** What is to be done. Each is answered by an event of the same container and attempt. */
export type PodEffect =
  | { readonly kind: "prepare" }
  | { readonly kind: "start"; readonly name: string; readonly attempt: number }
  /** Runs preStop, then signals, then kills. */
  | { readonly kind: "stop"; readonly name: string; readonly attempt: number; readonly graceMs: number }
  | { readonly kind: "post-start"; readonly name: string; readonly attempt: number }
  | { readonly kind: "probe"; readonly name: string; readonly attempt: number; readonly probe: ProbeKind }
  | { readonly kind: "event"; readonly type: "Normal" | "Warning"; readonly reason: string; readonly note: string }
  /** Everything has ended: the object and the Pod's folder may go. */
  | { readonly kind: "release" };

/** The outcome of one {@link stepPod}. */
export interface PodStep {
  readonly state: PodState;
  readonly effects: readonly PodEffect[];
}

const setupRetryMs = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 122_000];

/** A refused start (a missing ConfigMap) is tried again this much later, or when something that it names changes. */
const refusedRetryMs = 10_000;

/** The state of a Pod that this node sees for the first time, none of its containers running. */
export function newPodState(pod: PodView, now: number): PodState {
  return {
    pod,
    startTime: now,
    setup: "none",
    setupRetryAt: 0,
    setupFailures: 0,
    containers: plannedContainers(pod).map(({ role, container }) => newContainer(container.name, role)),
    isReleased: false,
  };
}

/** A container before its first start. */
export function newContainer(name: string, role: Role): ContainerRecord {
  return {
    name,
    role,
    attempt: 0,
    current: { kind: "waiting", reason: role === "main" ? "ContainerCreating" : "PodInitializing", message: "" },
    failures: 0,
    retryAt: 0,
    isStarted: false,
    isReady: false,
    isHooked: false,
    probes: {},
  };
}

/**
 * The life of a Pod on its node as a pure function: what is known, what happens, now (milliseconds since the epoch) -> what is
 * known then, and what is to be done. Events about an attempt that is over change nothing, so they may come late or twice.
 */
export function stepPod(state: PodState, event: PodEvent, now: number): PodStep {
  const effects: PodEffect[] = [];
  const next = advance(take(state, event, now, effects), now, effects);
  return { state: next, effects };
}

/** When {@link stepPod} is to be called with a `tick` next; `undefined`: only when something happens. */
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

function take(state: PodState, event: PodEvent, now: number, effects: PodEffect[]): PodState {
  switch (event.kind) {
    case "tick":
      return state;
    case "changed":
      // What was refused for something that is not there may be there now.
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
        const { container } = plan(state, record.name);
        const isHooked = container.lifecycle?.postStart !== undefined;
        if (isHooked) effects.push({ kind: "post-start", name: record.name, attempt: record.attempt });
        return running({ ...record, isHooked }, container, event.at);
      });
    case "refused":
      return change(state, event.name, (record) => {
        if (record.attempt !== event.attempt || record.current.kind !== "starting") return record;
        effects.push({ kind: "event", type: "Warning", reason: "Failed", note: `Error: ${event.message}` });
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
          current: { kind: "terminated", finished: event.finished },
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

/** A container whose program runs since `at`. */
export function running(record: ContainerRecord, container: PlannedContainer["container"], at: number): ContainerRecord {
  const probes = firstProbes(container, at);
  const next: ContainerRecord = {
    ...record,
    current: { kind: "running", startedAt: at },
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

function kill(record: ContainerRecord, grace: number, effects: PodEffect[], why: string): ContainerRecord {
  if (record.stopGraceMs !== undefined && record.stopGraceMs <= grace) return record;
  if (record.stopGraceMs === undefined) {
    const because = why === "" ? "" : `: Container ${record.name} ${why}`;
    const note = because === "" ? `Stopping container ${record.name}` : because.slice(2);
    effects.push({ kind: "event", type: "Normal", reason: "Killing", note });
  }
  effects.push({ kind: "stop", name: record.name, attempt: record.attempt, graceMs: grace });
  return { ...record, stopGraceMs: grace, isReady: false };
}

/** What follows from the state by itself, and from the time. */
function advance(before: PodState, now: number, effects: PodEffect[]): PodState {
  let state = decideStop(before, now, effects);
  if (state.stop !== undefined || state.end !== undefined) state = wind(state, effects);
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
    return { ...state, stop: { reason: state.stop?.reason ?? "deleted", graceMs: Math.min(state.stop?.graceMs ?? grace, grace) } };
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

/** Stops what runs, the sidecars last and in reverse order, then ends. */
function wind(before: PodState, effects: PodEffect[]): PodState {
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
    // Setting up writes into the folder that goes; its answer comes first.
    if (state.setup === "running") return state;
    effects.push({ kind: "release" });
    return { ...state, isReleased: true };
  }
  return state;
}

function endOf(state: PodState): "Succeeded" | "Failed" {
  if (state.stop?.reason === "deadline") return "Failed";
  const mains = state.containers.filter(({ role }) => role === "main");
  const isGood = mains.every(({ current }) => current.kind === "terminated" && current.finished.exitCode === 0);
  return isGood ? "Succeeded" : "Failed";
}

function prepare(state: PodState, now: number, effects: PodEffect[]): PodState {
  if (state.setup !== "none" || state.setupRetryAt > now) return state;
  effects.push({ kind: "prepare" });
  return { ...state, setup: "running" };
}

/** Starts what is due, in order. */
function run(before: PodState, now: number, effects: PodEffect[]): PodState {
  let state = before;
  for (const { name, role } of before.containers) {
    if (role === "main") continue;
    state = change(state, name, (record) => runOne(state.pod, record, now, effects));
    const record = state.containers.find((each) => each.name === name);
    if (record === undefined) continue;
    if (record.role === "init" && hasFailedForGood(state.pod, record)) return wind({ ...state, end: "Failed" }, effects);
    if (!isPassed(record)) return state;
  }
  for (const { name, role } of before.containers) {
    if (role === "main") state = change(state, name, (record) => runOne(state.pod, record, now, effects));
  }
  const mains = state.containers.filter(({ role }) => role === "main");
  const isOver = mains.every((record) => record.current.kind === "terminated" && !restarts(state.pod, record));
  return isOver ? wind({ ...state, end: endOf(state) }, effects) : state;
}

/** Whether what comes after an init container or sidecar may start. Once passed, a sidecar's restart holds nobody up. */
function isPassed(record: ContainerRecord): boolean {
  if (record.role === "sidecar") return record.isStarted || record.attempt > 0;
  return record.current.kind === "terminated" && record.current.finished.exitCode === 0;
}

function hasFailedForGood(pod: PodView, record: ContainerRecord): boolean {
  const { current } = record;
  return current.kind === "terminated" && current.finished.exitCode !== 0 && !restarts(pod, record);
}

function restarts(pod: PodView, record: ContainerRecord): boolean {
  if (record.current.kind !== "terminated") return false;
  if (record.role === "sidecar") return true;
  const policy = pod.spec.restartPolicy ?? "Always";
  const isGood = record.current.finished.exitCode === 0;
  if (record.role === "init") return !isGood && policy !== "Never";
  return policy === "Always" || (policy === "OnFailure" && !isGood);
}

/** A run this long forgives earlier failures: twice the longest back-off. */
const forgivenMs = 600_000;

function runOne(pod: PodView, record: ContainerRecord, now: number, effects: PodEffect[]): ContainerRecord {
  const start = (next: ContainerRecord): ContainerRecord => {
    effects.push({ kind: "start", name: next.name, attempt: next.attempt });
    return { ...next, current: { kind: "starting" }, retryAt: 0 };
  };
  if (record.current.kind === "waiting") return record.retryAt <= now ? start(record) : record;
  if (record.current.kind !== "terminated" || !restarts(pod, record)) return record;
  const { finished } = record.current;
  const ran = finished.startedAt === undefined ? 0 : finished.finishedAt - finished.startedAt;
  const failures = ran >= forgivenMs ? 0 : record.failures;
  const pause = backOffMs(failures);
  const next: ContainerRecord = { ...record, attempt: record.attempt + 1, failures: failures + 1, last: finished };
  const retryAt = finished.finishedAt + pause;
  if (retryAt <= now) return start(next);
  const who = `${record.name} pod=${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})`;
  const message = `back-off ${backOffText(pause)} restarting failed container=${who}`;
  effects.push({ kind: "event", type: "Warning", reason: "BackOff", note: `Back-off restarting failed container ${record.name} in pod ${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})` });
  return { ...next, current: { kind: "waiting", reason: "CrashLoopBackOff", message }, retryAt };
}

function backOffText(ms: number): string {
  const seconds = ms / 1000;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

/** Which probes count now: until the startup probe has succeeded, no other. */
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

/** The probe of a kind as the container has it. */
export function probeSpec(container: PlannedContainer["container"], kind: ProbeKind): ProbeView | undefined {
  return kind === "startup"
    ? container.startupProbe
    : kind === "liveness"
      ? container.livenessProbe
      : container.readinessProbe;
}

function planOf(pod: PodView, name: string): PlannedContainer {
  const found = plannedContainers(pod).find(({ container }) => container.name === name);
  if (found === undefined) throw new TypeError(`pod ${pod.metadata.name} has no container ${name}`);
  return found;
}

function plan(state: PodState, name: string): PlannedContainer {
  return planOf(state.pod, name);
}

function change(state: PodState, name: string, edit: (record: ContainerRecord) => ContainerRecord): PodState {
  let isChanged = false;
  const containers = state.containers.map((record) => {
    if (record.name !== name) return record;
    const next = edit(record);
    isChanged ||= next !== record;
    return next;
  });
  return isChanged ? { ...state, containers } : state;
}
