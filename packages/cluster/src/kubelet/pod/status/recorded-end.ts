import type { PodState } from "../machine/pod-state.ts";
import type { PodView } from "../pod-view.ts";

/**
 * The end of a Pod that its status records: written by an earlier kubelet, or by another client, such as a controller that fails Pods. As
 * with the kubelet of Kubernetes, a terminal phase is final.
 */
export function recordedEnd({ status }: PodView): Pick<PodState, "end" | "failure"> {
  const { phase, reason, message = "" } = status ?? {};
  if (phase !== "Succeeded" && phase !== "Failed") return {};
  return { end: phase, ...(phase === "Failed" && reason !== undefined ? { failure: { reason, message } } : {}) };
}
