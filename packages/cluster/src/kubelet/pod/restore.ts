import type { DeepReadonly } from "@keelson/api-machinery";
import type { ContainerStatus } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import { type Exited, hasNeverRun, type ProgramState } from "@keelson/execution";
import { changedResources, isResizable, requiresRestart, type Resources } from "../resources/pod-resources.ts";
import { running } from "./machine/pod-events.ts";
import {
  type ContainerRecord,
  creatingReason,
  type Finished,
  evictedReason,
  newContainer,
  type PodState,
} from "./machine/pod-state.ts";
import { recordedEnd } from "./status/recorded-end.ts";
import { type ContainerView, type PodView, plannedContainers } from "./pod-view.ts";

/** A program of a Pod, running or exited, as found in its driver. */
export interface FoundProgram {
  readonly container: string;
  readonly attempt: number;
  readonly state: ProgramState;
  /** The resources that it has, if known. */
  readonly resources?: Resources;
}

/** Converts a program's exit to a container's termination. */
export function finishedOf(attempt: number, exit: Exited): Finished {
  const reasons = { StartFailed: "StartError", Lost: "ContainerStatusUnknown", OOMKilled: "OOMKilled" } as const;
  const known = exit.reason in reasons ? reasons[exit.reason as keyof typeof reasons] : undefined;
  const exitCode =
    exit.reason === "Lost" && exit.exitCode < 0
      ? 137
      : exit.reason === "StartFailed" && exit.exitCode <= 0
        ? 128
        : exit.exitCode;
  return {
    attempt,
    exitCode,
    ...(exit.signal === undefined ? {} : { signal: exit.signal }),
    reason: known ?? (exitCode === 0 ? "Completed" : "Error"),
    message: known === undefined ? "" : exit.message,
    ...(exit.startedAt === undefined ? {} : { startedAt: exit.startedAt }),
    finishedAt: exit.finishedAt,
  };
}

/**
 * Restores the state of a Pod after a restart of the kubelet: from its programs, which are authoritative, and from its status, which
 * adds what programs do not record (readiness, start time, terminal phase).
 */
export function restorePodState(pod: PodView, programs: readonly FoundProgram[], now: number): PodState {
  const phase = pod.status?.phase;
  const containers = plannedContainers(pod).map(({ role, container }): ContainerRecord => {
    const mine = programs.filter((program) => program.container === container.name).sort((a, b) => b.attempt - a.attempt);
    const fresh = newContainer(container.name, role, creatingReason(pod));
    const [newest, before] = mine;
    const shown = statusesOf(pod).find(({ name }) => name === container.name);
    if (newest === undefined) {
      // The programs are lost (for example with the data directory), but the recorded termination still holds.
      const ended = shown?.state?.terminated ?? shown?.lastState?.terminated;
      if (shown === undefined || ended === undefined) return fresh;
      const finished: Finished = {
        attempt: shown.restartCount,
        exitCode: ended.exitCode,
        reason: ended.reason ?? "Error",
        message: ended.message ?? "",
        ...(ended.startedAt === undefined ? {} : { startedAt: parseTime(ended.startedAt) ?? now }),
        finishedAt: parseTime(ended.finishedAt ?? "") ?? now,
      };
      return {
        ...fresh,
        attempt: shown.restartCount,
        failures: shown.restartCount,
        isReady: role === "init" && finished.exitCode === 0,
        current: terminated(finished, now),
      };
    }
    const { attempt, state } = newest;
    const last = before?.state.kind === "exited" ? { last: finishedOf(before.attempt, before.state) } : {};
    const actuated = newest.resources ?? container.resources ?? {};
    const base = { ...fresh, ...last, attempt, failures: attempt, actuated };
    // As with a container that was created and never started, the restart policy does not matter.
    if (state.kind === "exited" && hasNeverRun(state) && phase !== "Succeeded" && phase !== "Failed") {
      return { ...base, attempt: attempt + 1, current: fresh.current };
    }
    if (state.kind === "exited") return ended(base, container, state, now);
    if (state.kind === "starting") return { ...base, current: { kind: "starting" } };
    const record = running(base, container, state.startedAt, Math.min(state.startedAt, now));
    if (shown === undefined || shown.restartCount !== attempt || shown.started !== true) return record;
    return { ...record, isStarted: true, isReady: shown.ready };
  });
  return {
    pod,
    startTime: parseTime(pod.status?.startTime ?? "") ?? now,
    // Volumes are prepared again, because their sources may have changed.
    setup: "none",
    setupRetryAt: 0,
    setupFailures: 0,
    containers,
    ...recordedEnd(pod),
    ...evictionOf(pod),
    isReleased: false,
  };
}

/** An eviction under an earlier kubelet that is not over. */
function evictionOf({ status }: PodView): Pick<PodState, "stop" | "failure"> {
  const { phase, reason, message = "" } = status ?? {};
  if (reason !== evictedReason || phase === "Failed" || phase === "Succeeded") return {};
  return { stop: { reason: "evicted", graceMs: 0 }, failure: { reason, message } };
}

/** A container whose newest program has exited. If it was stopped to get other resources, it restarts with them. */
function ended(base: ContainerRecord, container: ContainerView, exit: Exited, now: number): ContainerRecord {
  const finished = finishedOf(base.attempt, exit);
  const changed = isResizable(base.role) ? changedResources(base.actuated, container.resources) : [];
  return {
    ...base,
    ...(exit.reason === "Stopped" && requiresRestart(container, changed) && { isRestarting: true }),
    isReady: base.role === "init" && finished.exitCode === 0,
    current: terminated(finished, now),
  };
}

function statusesOf({ status }: PodView): readonly DeepReadonly<ContainerStatus>[] {
  const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [] } = status ?? {};
  return [...containerStatuses, ...initContainerStatuses, ...ephemeralContainerStatuses];
}

/** A termination under an earlier kubelet. Capped at `now`, because the wall clock may have been set back. */
function terminated(finished: Finished, now: number): ContainerRecord["current"] {
  const { startedAt = finished.finishedAt, finishedAt } = finished;
  return { kind: "terminated", finished, endedAt: Math.min(finishedAt, now), ranMs: Math.max(finishedAt - startedAt, 0) };
}
