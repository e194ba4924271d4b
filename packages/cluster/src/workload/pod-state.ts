import { findCondition, isConditionTrue } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import type { Cached } from "./write.ts";

/** A Pod from the cache. */
export type CachedPod = Cached<PodObject>;

/** Whether the Pod has succeeded or failed. */
export function isPodTerminal(pod: CachedPod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** Whether the Pod is being deleted. */
export function isPodTerminating(pod: CachedPod): boolean {
  return pod.metadata.deletionTimestamp !== undefined;
}

/** Whether the Pod runs or will run: neither terminal nor being deleted. */
export function isPodActive(pod: CachedPod): boolean {
  return !isPodTerminal(pod) && !isPodTerminating(pod);
}

/** Whether the Pod's Ready condition is True. */
export function isPodReady(pod: CachedPod): boolean {
  return isConditionTrue(conditionsOf(pod), "Ready");
}

/** When the Pod becomes available (ready for `minReadySeconds`), in milliseconds since the epoch. Undefined while it is not ready. */
export function podAvailableAt(pod: CachedPod, minReadySeconds: number): number | undefined {
  const ready = findCondition(conditionsOf(pod), "Ready");
  if (ready?.status !== "True") return undefined;
  if (minReadySeconds <= 0) return 0;
  const since = parseTime(ready.lastTransitionTime ?? "");
  return since === undefined ? undefined : since + minReadySeconds * 1_000;
}

/** Pod counts for a workload's status. */
export interface PodCounts {
  readonly ready: number;
  readonly available: number;
  /** When the next ready Pod becomes available. */
  readonly nextAvailableAt: number | undefined;
}

/** Counts ready and available Pods. */
export function countPods(pods: readonly CachedPod[], minReadySeconds: number, now: number): PodCounts {
  let ready = 0;
  let available = 0;
  let nextAvailableAt: number | undefined;
  for (const pod of pods) {
    const at = podAvailableAt(pod, minReadySeconds);
    if (isPodReady(pod)) ready++;
    if (at === undefined) continue;
    if (at <= now) available++;
    else nextAvailableAt = Math.min(nextAvailableAt ?? at, at);
  }
  return { ready, available, nextAvailableAt };
}

function conditionsOf(pod: CachedPod): readonly { type: string; status: string; lastTransitionTime?: string }[] {
  return pod.status?.conditions ?? [];
}
