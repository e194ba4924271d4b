import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import type { TaskSignal } from "../../api/task-signal.ts";
import { signalsFeature } from "../../protocol/messages.ts";
import { type TaskProblem, taskProblem } from "../tasks/running-task.ts";

/** Time that a robot has to confirm a signal. */
export const confirmationTimeoutMs = 30_000;

/** Maximum age of a TaskSignal that is sent. The operator may have been down since it was created. */
export const maxSignalAgeMs = 300_000;

/** Time that a TaskSignal is kept after it was delivered or failed. */
export const signalRetentionMs = 600_000;

/** Status of a TaskSignal. */
export type SignalStatus = NonNullable<TaskSignal["status"]>;

/** Input of {@link decideSignal}. */
export interface SignalObservation {
  readonly signal: DeepReadonly<TaskSignal>;
  /** The Task that the signal names. */
  readonly task: DeepReadonly<Task> | undefined;
  /** The robot that the Task is bound to. */
  readonly robot: DeepReadonly<Robot> | undefined;
  readonly now: number;
}

/** What to do with a TaskSignal: write a status, delete it, or look again later. */
export type SignalDecision =
  | { readonly kind: "write"; readonly status: SignalStatus }
  | { readonly kind: "delete" }
  | { readonly kind: "wait"; readonly requeueAfterMs: number };

/**
 * Decides about a TaskSignal. The robot and the attempt are recorded before the signal is sent, and a signal is never sent to another
 * attempt afterwards, so it is delivered at most once.
 */
export function decideSignal({ signal, task, robot, now }: SignalObservation): SignalDecision {
  const { status } = signal;
  switch (status?.phase) {
    case "Delivered":
    case "Failed": {
      const remainingMs = Date.parse(status.finishedAt ?? "") + signalRetentionMs - now;
      return remainingMs > 0 ? { kind: "wait", requeueAfterMs: remainingMs } : { kind: "delete" };
    }
    case "Sent": {
      const remainingMs = Date.parse(status.sentAt ?? "") + confirmationTimeoutMs - now;
      if (remainingMs > 0) return { kind: "wait", requeueAfterMs: remainingMs };
      const message = `robot ${status.robot} did not confirm the signal within ${confirmationTimeoutMs / 1000} s; it may have been delivered`;
      return { kind: "write", status: endedStatus(status, { phase: "Failed", reason: "NotConfirmed", message }, now) };
    }
    default: {
      const problem =
        ageProblem(signal, now) ?? taskProblem(signal.spec.task, task, robot, { feature: signalsFeature, what: "signals" });
      if (problem !== undefined) return { kind: "write", status: endedStatus({}, { phase: "Failed", ...problem }, now) };
      const { targetRobot } = task?.spec ?? {};
      const target = { robot: targetRobot, taskUid: task?.metadata.uid, attempt: task?.status?.attempt };
      return { kind: "write", status: { phase: "Sent", ...target, sentAt: new Date(now).toISOString() } };
    }
  }
}

/** The status of a signal that was delivered or failed. */
export function endedStatus(
  { robot, taskUid, attempt, sentAt }: DeepReadonly<SignalStatus>,
  end: { readonly phase: "Delivered" | "Failed"; readonly reason?: string; readonly message: string },
  now: number,
): SignalStatus {
  const target = Object.fromEntries(
    Object.entries({ robot, taskUid, attempt, sentAt }).filter(([, value]) => value !== undefined),
  );
  return { ...target, ...end, finishedAt: new Date(now).toISOString() };
}

function ageProblem({ metadata }: DeepReadonly<TaskSignal>, now: number): TaskProblem | undefined {
  const ageMs = now - Date.parse(metadata.creationTimestamp ?? "");
  if (!(ageMs > maxSignalAgeMs)) return undefined;
  const message = `the operator did not run for ${maxSignalAgeMs / 60_000} minutes after the signal was created; create another TaskSignal`;
  return { reason: "Expired", message };
}
