import { findCondition, isConditionTrue } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import type { Seen } from "./write.ts";

/** A Pod as it is read. */
export type SeenPod = Seen<PodObject>;

/** Whether the Pod has ended, well or not. */
export function isPodTerminal(pod: SeenPod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** Whether it is being deleted. */
export function isPodTerminating(pod: SeenPod): boolean {
  return pod.metadata.deletionTimestamp !== undefined;
}

/** Whether it runs or will run: neither ended nor being deleted. */
export function isPodActive(pod: SeenPod): boolean {
  return !isPodTerminal(pod) && !isPodTerminating(pod);
}

/** Whether its Ready condition is True. */
export function isPodReady(pod: SeenPod): boolean {
  return isConditionTrue(conditionsOf(pod), "Ready");
}

/**
 * Milliseconds from the epoch since when the Pod counts as available: ready for `minReadySeconds`. Undefined while it is not
 * ready.
 */
export function podAvailableAt(pod: SeenPod, minReadySeconds: number): number | undefined {
  const ready = findCondition(conditionsOf(pod), "Ready");
  if (ready?.status !== "True") return undefined;
  if (minReadySeconds <= 0) return 0;
  const since = parseTime(ready.lastTransitionTime ?? "");
  return since === undefined ? undefined : since + minReadySeconds * 1_000;
}

/** Pods by how they stand: what statuses count. */
export interface PodCounts {
  readonly ready: number;
  readonly available: number;
  /** When the next ready Pod becomes available. */
  readonly nextAvailableAt: number | undefined;
}

/** Counts ready and available Pods. */
export function countPods(pods: readonly SeenPod[], minReadySeconds: number, now: number): PodCounts {
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

function conditionsOf(pod: SeenPod): readonly { type: string; status: string; lastTransitionTime?: string }[] {
  return (pod.status?.conditions ?? []) as readonly { type: string; status: string; lastTransitionTime?: string }[];
}
