import { type PodView, type PlannedContainer, plannedContainers, type ProbeView, type Role } from "../pod-view.ts";
import type { Resources } from "../../resources/pod-resources.ts";
import type { ProbeKind, ProbeRecord } from "../../probes/probe-record.ts";

/** How an attempt of a container terminated. */
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

/** Why a container is not running. */
export interface Waiting {
  readonly kind: "waiting";
  readonly reason: string;
  readonly message: string;
}

/** The state of a container. `starting`: the start was requested; until it succeeds, `refused` is still shown. */
export type Current =
  | Waiting
  | { readonly kind: "starting"; readonly refused?: Waiting }
  /** `since` is the base of deadlines; `startedAt`, in wall-clock time, is shown. */
  | { readonly kind: "running"; readonly startedAt: number; readonly since: number }
  /** Terminated at `endedAt` after running for `ranMs`; the wall-clock times of `finished` are shown. */
  | { readonly kind: "terminated"; readonly finished: Finished; readonly endedAt: number; readonly ranMs: number };

/** One container in the state of its Pod. */
export interface ContainerRecord {
  readonly name: string;
  readonly role: Role;
  /** The number of restarts. Part of the program's id. */
  readonly attempt: number;
  readonly current: Current;
  readonly last?: Finished;
  /** Attempts since the last long run. Determines the backoff. */
  readonly failures: number;
  /** Failed image pulls since the last run. */
  readonly pullFailures?: number;
  /** The earliest time of the next start. */
  readonly retryAt: number;
  readonly isStarted: boolean;
  readonly isReady: boolean;
  /** Whether a postStart hook is running. Until it ends, the container is not shown as running. */
  readonly isHooked: boolean;
  /** The grace period of a stop in progress. */
  readonly stopGraceMs?: number;
  readonly probes: Readonly<Partial<Record<ProbeKind, ProbeRecord>>>;
  /** The resources that the current attempt was started with, or has been given since. */
  readonly actuated?: Resources;
  /** Whether its resources are being changed. */
  readonly isResizing?: boolean;
  /** The earliest time of the next attempt to change its resources. */
  readonly resizeAt?: number;
  /** Whether it is stopped so that it restarts with other resources. */
  readonly isRestarting?: boolean;
}

/** A resize that the node has admitted and not completed. `problem`: why it could not be carried out; it is retried. */
export interface ResizeProgress {
  readonly generation: number;
  readonly problem?: string;
}

/** A resize that the node has not admitted. */
export interface PendingResize {
  readonly generation: number;
  readonly reason: "Deferred" | "Infeasible";
  readonly message: string;
}

/** What the node has decided about the resources that a Pod asks for. `none`: it has them. */
export type ResizeNews =
  | { readonly kind: "none" }
  | { readonly kind: "allocated"; readonly generation: number }
  | ({ readonly kind: "pending" } & PendingResize);

/** The reason in the status of an evicted Pod. */
export const evictedReason = "Evicted";

/** Why a Pod is being stopped. */
export type StopReason = "deleted" | "deadline" | "evicted";

/** The state of a Pod on this node. */
export interface PodState {
  readonly pod: PodView;
  /** When this node accepted the Pod. */
  readonly startTime: number;
  readonly setup: "none" | "running" | "done";
  /** Why volumes are not ready; retried at `setupRetryAt`. */
  readonly setupProblem?: string;
  readonly setupRetryAt: number;
  readonly setupFailures: number;
  readonly containers: readonly ContainerRecord[];
  readonly stop?: { readonly reason: StopReason; readonly graceMs: number };
  /** Set when everything has exited and nothing is restarted. */
  readonly end?: "Succeeded" | "Failed";
  /** Why the Pod failed, if that does not follow from its containers. */
  readonly failure?: { readonly reason: string; readonly message: string };
  readonly resize?: ResizeProgress;
  readonly pendingResize?: PendingResize;
  /** Whether deletion of the object was requested. */
  readonly isReleased: boolean;
}

/** An event in the life of a Pod. */
export type PodEvent =
  /** `pod` has the allocated resources. Without `resize`, the decision stays. */
  | { readonly kind: "changed"; readonly pod: PodView; readonly resize?: ResizeNews }
  | {
      readonly kind: "resized";
      readonly name: string;
      readonly attempt: number;
      readonly resources: Resources;
      readonly problem?: string;
    }
  | { readonly kind: "prepared" }
  | { readonly kind: "prepare-failed"; readonly message: string }
  | { readonly kind: "started"; readonly name: string; readonly attempt: number; readonly at: number }
  /** The start was rejected: `CreateContainerConfigError`, `CreateContainerError`, `ErrImagePull`, `InvalidImageName` ... */
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
  /** The node ends the Pod, because it uses more than it may. */
  | { readonly kind: "evicted"; readonly message: string }
  | { readonly kind: "tick" };

/** An effect to perform. Each is answered by an event of the same container and attempt. */
export type PodEffect =
  | { readonly kind: "prepare" }
  | { readonly kind: "start"; readonly name: string; readonly attempt: number }
  /** Runs preStop, then signals, then kills. */
  | { readonly kind: "stop"; readonly name: string; readonly attempt: number; readonly graceMs: number }
  /** Changes the resources of the running program. */
  | { readonly kind: "resize"; readonly name: string; readonly attempt: number; readonly resources: Resources }
  | { readonly kind: "post-start"; readonly name: string; readonly attempt: number }
  | { readonly kind: "probe"; readonly name: string; readonly attempt: number; readonly probe: ProbeKind }
  | { readonly kind: "event"; readonly type: "Normal" | "Warning"; readonly reason: string; readonly note: string }
  /** Everything has exited: the object and the Pod's directory are deleted. */
  | { readonly kind: "release" };

/** The result of {@link stepPod}. */
export interface PodStep {
  readonly state: PodState;
  readonly effects: readonly PodEffect[];
}

/** The state of a new Pod without running containers. */
export function newPodState(pod: PodView, now: number): PodState {
  return {
    pod,
    startTime: now,
    setup: "none",
    setupRetryAt: 0,
    setupFailures: 0,
    containers: plannedContainers(pod).map(({ role, container }) => newContainer(container.name, role, creatingReason(pod))),
    isReleased: false,
  };
}

/** Whether the other containers wait for containers of this role. */
export function isInitRole(role: Role): boolean {
  return role === "init" || role === "sidecar";
}

/** Why a container that has not started waits: in a Pod with init containers, all wait for the Pod's initialization. */
export function creatingReason(pod: PodView): "ContainerCreating" | "PodInitializing" {
  return plannedContainers(pod).some(({ role }) => isInitRole(role)) ? "PodInitializing" : "ContainerCreating";
}

/** A container before its first start. */
export function newContainer(name: string, role: Role, reason: ReturnType<typeof creatingReason>): ContainerRecord {
  return {
    name,
    role,
    attempt: 0,
    current: { kind: "waiting", reason, message: "" },
    failures: 0,
    retryAt: 0,
    isStarted: false,
    isReady: false,
    isHooked: false,
    probes: {},
  };
}

/** A container's probe of a kind. */
export function probeSpec(container: PlannedContainer["container"], kind: ProbeKind): ProbeView | undefined {
  return kind === "startup" ? container.startupProbe : kind === "liveness" ? container.livenessProbe : container.readinessProbe;
}

/** A container of a Pod with its role. Throws a TypeError if there is none of this name. */
export function planOf(pod: PodView, name: string): PlannedContainer {
  const found = plannedContainers(pod).find(({ container }) => container.name === name);
  if (found === undefined) throw new TypeError(`pod ${pod.metadata.name} has no container ${name}`);
  return found;
}

/** Replaces one container's record. Returns the same state if nothing changed. */
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

/** Whether a Pod waits for nothing that is known to be missing. */
export function isProgressing({ setupProblem, containers }: PodState): boolean {
  return setupProblem === undefined && !containers.some(({ current, retryAt }) => current.kind === "waiting" && retryAt > 0);
}
