import { ExecutionError } from "@keelson/execution";
import { isContainerError } from "../container/container-error.ts";
import type { PodEvent } from "./machine/pod-state.ts";

/** The event of a failed start: `exited` if the executable could not run, else `refused` with the reason for the container's status. */
export function startFailure(name: string, attempt: number, error: unknown, now: number): PodEvent {
  const message = error instanceof Error ? error.message : String(error);
  if (isContainerError(error)) {
    if (error.code !== "StartError") return { kind: "refused", name, attempt, reason: error.code, message };
    const finished = { attempt, exitCode: error.exitCode ?? 128, reason: "StartError", message, finishedAt: now };
    return { kind: "exited", name, finished };
  }
  const isInvalid = error instanceof ExecutionError && error.code === "InvalidSpec";
  return { kind: "refused", name, attempt, reason: isInvalid ? "CreateContainerConfigError" : "CreateContainerError", message };
}
