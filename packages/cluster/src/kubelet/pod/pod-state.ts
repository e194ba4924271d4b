import { type PodView, type PlannedContainer, plannedContainers, type ProbeView, type Role } from "./pod-view.ts";
import type { ProbeKind, ProbeRecord } from "../probes/probe-record.ts";

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

/** Why a container does not run. */
export interface Waiting {
  readonly kind: "waiting";
  readonly reason: string;
  readonly message: string;
}

/** Where a container stands. `starting`: its program was asked for and has not answered; until then `refused` is still shown. */
export type Current =
  | Waiting
  | { readonly kind: "starting"; readonly refused?: Waiting }
  /** `since` is what deadlines count from; `startedAt`, by the wall clock, is shown. */
  | { readonly kind: "running"; readonly startedAt: number; readonly since: number }
  /** It ended at `endedAt`, having run for `ranMs`; the times of `finished`, by the wall clock, are shown. */
  | { readonly kind: "terminated"; readonly finished: Finished; readonly endedAt: number; readonly ranMs: number };

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
  /** How often its image could not be pulled since it last ran. */
  readonly pullFailures?: number;
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
  /** It could not even be tried: `CreateContainerConfigError`, `CreateContainerError`, `ErrImagePull`, `InvalidImageName` ... */
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

/** The probe of a kind as the container has it. */
export function probeSpec(container: PlannedContainer["container"], kind: ProbeKind): ProbeView | undefined {
  return kind === "startup" ? container.startupProbe : kind === "liveness" ? container.livenessProbe : container.readinessProbe;
}

/** A container of a Pod with its role. Throws a TypeError where there is none of that name. */
export function planOf(pod: PodView, name: string): PlannedContainer {
  const found = plannedContainers(pod).find(({ container }) => container.name === name);
  if (found === undefined) throw new TypeError(`pod ${pod.metadata.name} has no container ${name}`);
  return found;
}

/** The state with one container changed; the same state where nothing is. */
export function change(state: PodState, name: string, edit: (record: ContainerRecord) => ContainerRecord): PodState {
  let isChanged = false;
  const containers = state.containers.map((record) => {
    if (record.name !== name) return record;
    const next = edit(record);
    isChanged ||= next !== record;
    return next;
  });
  return isChanged ? { ...state, containers } : state;
}
