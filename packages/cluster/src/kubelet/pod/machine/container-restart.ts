import { backOffMs } from "./back-off.ts";
import { type ContainerRecord, planOf, type PodEffect } from "./pod-state.ts";
import type { ContainerView, PodView } from "../pod-view.ts";

/** Whether the containers after an init container or sidecar may start. Once passed, a restarting sidecar blocks nothing. */
export function isPassed(record: ContainerRecord): boolean {
  if (record.role === "sidecar") return record.isStarted || record.attempt > 0;
  return record.current.kind === "terminated" && record.current.finished.exitCode === 0;
}

/** Whether an init container has failed and is not restarted, which fails its Pod. */
export function hasFailedPermanently(pod: PodView, record: ContainerRecord): boolean {
  const { current } = record;
  return current.kind === "terminated" && current.finished.exitCode !== 0 && !restarts(pod, record);
}

/** Whether a terminated container is restarted, by its Pod's restart policy. */
export function restarts(pod: PodView, record: ContainerRecord): boolean {
  if (record.current.kind !== "terminated") return false;
  if (record.role === "sidecar" || record.isRestarting === true) return true;
  if (record.role === "ephemeral") return false;
  const policy = pod.spec.restartPolicy ?? "Always";
  const hasSucceeded = record.current.finished.exitCode === 0;
  if (record.role === "init") return !hasSucceeded && policy !== "Never";
  return policy === "Always" || (policy === "OnFailure" && !hasSucceeded);
}

/** A run of this length resets the backoff: twice the maximum delay. */
const backOffResetMs = 600_000;

/** Starts a container that is due, immediately or after its backoff. */
export function runOne(pod: PodView, record: ContainerRecord, now: number, effects: PodEffect[]): ContainerRecord {
  const start = (next: ContainerRecord): ContainerRecord => {
    effects.push({ kind: "start", name: next.name, attempt: next.attempt });
    const isRefused = next.current.kind === "waiting" && next.retryAt > 0 && next.current.reason !== "CrashLoopBackOff";
    const { isRestarting: _, isResizing: __, resizeAt: ___, ...rest } = next;
    const { resources = {} } = planOf(pod, next.name).container;
    return {
      ...rest,
      actuated: resources,
      current: { kind: "starting", ...(isRefused ? { refused: next.current } : {}) },
      retryAt: 0,
    };
  };
  if (record.current.kind === "waiting") return record.retryAt <= now ? start(record) : record;
  if (record.current.kind !== "terminated" || !restarts(pod, record)) return record;
  const { finished, endedAt, ranMs } = record.current;
  if (record.isRestarting === true) return start({ ...record, attempt: record.attempt + 1, last: finished });
  const failures = ranMs >= backOffResetMs ? 0 : record.failures;
  const pause = backOffMs(failures);
  const next: ContainerRecord = { ...record, attempt: record.attempt + 1, failures: failures + 1, last: finished };
  const retryAt = endedAt + pause;
  if (retryAt <= now) return start(next);
  const container = `${record.name} pod=${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})`;
  const message = `back-off ${backOffText(pause)} restarting failed container=${container}`;
  effects.push({
    kind: "event",
    type: "Warning",
    reason: "BackOff",
    note: `Back-off restarting failed container ${record.name} in pod ${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})`,
  });
  return { ...next, current: { kind: "waiting", reason: "CrashLoopBackOff", message }, retryAt };
}

/** Backs off after a failed image pull: 10 s, doubled up to 5 min. */
export function pullBackOff(
  container: ContainerView,
  record: ContainerRecord,
  message: string,
  now: number,
  effects: PodEffect[],
): ContainerRecord {
  const pullFailures = (record.pullFailures ?? 0) + 1;
  const image = JSON.stringify(container.image ?? "");
  if (pullFailures === 1) {
    return {
      ...record,
      pullFailures,
      current: { kind: "waiting", reason: "ErrImagePull", message },
      retryAt: now + backOffMs(pullFailures),
    };
  }
  effects.push({ kind: "event", type: "Normal", reason: "BackOff", note: `Back-off pulling image ${image}` });
  const text = `Back-off pulling image ${image}: ErrImagePull: ${message}`;
  return {
    ...record,
    pullFailures,
    current: { kind: "waiting", reason: "ImagePullBackOff", message: text },
    retryAt: now + backOffMs(pullFailures),
  };
}

function backOffText(ms: number): string {
  const seconds = ms / 1000;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
