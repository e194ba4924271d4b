import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { mainContainerStatus } from "./main-container.ts";

/** Why a Pod does not start. */
export interface PodTrouble {
  readonly reason: string;
  readonly message: string;
  /** Whether its image cannot be pulled. */
  readonly isImage: boolean;
}

const imageReasons: ReadonlySet<string> = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "ErrImageNeverPull",
  "InvalidImageName",
  "ImageInspectError",
  "RegistryUnavailable",
]);
/** Reasons of a container that is starting normally. */
const usualReasons: ReadonlySet<string> = new Set(["", "ContainerCreating", "PodInitializing"]);

/** Why a Pod does not start; `undefined` if no problem is known. */
export function podTrouble(pod: DeepReadonly<PodObject>): PodTrouble | undefined {
  const containers = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  for (const { state } of containers) {
    const reason = state?.waiting?.reason ?? "";
    if (usualReasons.has(reason)) continue;
    return { reason, message: state?.waiting?.message ?? "", isImage: imageReasons.has(reason) };
  }
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False")
    return { reason: scheduled.reason ?? "Unschedulable", message: scheduled.message ?? "", isImage: false };
  return undefined;
}

/** Whether a Pod is scheduled and its containers have not started, for example because its volumes are being mounted. */
export function isCreating(pod: DeepReadonly<PodObject>): boolean {
  const { phase, containerStatuses = [] } = pod.status ?? {};
  const isScheduled = pod.spec.nodeName !== undefined && pod.spec.nodeName !== "";
  return phase === "Pending" && isScheduled && containerStatuses.every(({ state }) => state?.running === undefined);
}

/** Whether a Pod is running, ready and not being deleted. */
export function isReady(pod: DeepReadonly<PodObject>): boolean {
  return (
    pod.metadata.deletionTimestamp === undefined &&
    pod.status?.phase === "Running" &&
    (pod.status.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false)
  );
}

/** Exit status of a Pod's program; `undefined` while it has not ended. */
export function exitCodeOf(pod: DeepReadonly<PodObject>): number | undefined {
  return mainContainerStatus(pod)?.state?.terminated?.exitCode;
}

/**
 * Why a Pod's program failed, if more than its exit status is known: the launcher's or worker's own message, or the system's reason
 * (OOMKilled, StartError, Evicted). The program's own output is in its log.
 */
export function terminationMessage(pod: DeepReadonly<PodObject>): string | undefined {
  const terminated = mainContainerStatus(pod)?.state?.terminated;
  const text = withoutControlCharacters(terminated?.message ?? "").trim();
  const ours = text.split("\n").findLast((line) => line.startsWith("keelson mpi "));
  if (ours !== undefined) return ours.replace(/^keelson mpi \w+: /, "");
  for (const [reason, message] of [
    [terminated?.reason, text],
    [pod.status?.reason, pod.status?.message ?? ""],
  ] as const)
    if (reason && reason !== "Error" && reason !== "Completed") return message === "" ? reason : `${reason}: ${message}`;
  return undefined;
}

/** Programs write parts of these messages, and commands print them on terminals. */
function withoutControlCharacters(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n\t]/gu, "");
}
